package experiment

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// setsOf reads the overrides that a test file asks for in its first lines:
// "# --set path=value".
func setsOf(data []byte) []string {
	var sets []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		set, ok := strings.CutPrefix(lines.Text(), "# --set ")
		if !ok {
			break
		}
		sets = append(sets, set)
	}
	return sets
}

func TestAllMistakesAreReportedInPlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with mistakes: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			must.Do(t, err)
			_, err = Parse(filepath.Base(file), data, Options{Sets: setsOf(data)})
			if err == nil {
				t.Fatal("no mistake was found")
			}
			taskstest.File(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(err.Error()+"\n"))
		})
	}
}

func TestProblemHasPosition(t *testing.T) {
	t.Parallel()
	_, err := Parse("x.yaml", []byte("name: x\ndata: {source: a}\ntraining:\n  cohort: 0\n  rounds: 5\n"), Options{})
	var mistakes *Error
	if !errors.As(err, &mistakes) || len(mistakes.Problems) != 1 {
		t.Fatalf("got %v, want one problem", err)
	}
	want := Problem{Source: "x.yaml", Line: 4, Column: 11, Path: "training.cohort", Message: `is 0; expected a whole number from 1 to 100000000`}
	if got := mistakes.Problems[0]; got.String() != want.String() || got.Line != want.Line {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestHostileFilesAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"huge":            {strings.Repeat("# 345678\n", 120_000), "at most 1048576"},
		"too many lines":  {strings.Repeat("\n", 20_000), "at most 10000"},
		"many mistakes":   {manyKeys(500), "and 404 more"},
		"deep lists":      {strings.Repeat("[", 20_000), "nested more than"},
		"deep mappings":   {strings.Repeat("{a: ", 20_000), "nested more than"},
		"compact lists":   {strings.Repeat("- ", 20_000), "nested more than"},
		"compact keys":    {strings.Repeat("? ", 20_000), "nested more than"},
		"indented blocks": {staircase(1000), "nested more than"},
		"not UTF-8":       {"name: x\nseed: \xff\n", "x.yaml:2:7: the file is not valid UTF-8"},
		"one long number": {"seed: " + strings.Repeat("9", 100_000), "seed: is"},
		"a long exponent": {"name: x\nseed: 1e999999999\n", "seed: is"},
		"a zero fraction": {"canaries: {user_probability: 1/0}", "canaries.user_probability: is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("x.yaml", []byte(c.text), Options{})
			must.Say(t, err, c.want)
		})
	}
}

// staircase nests blocks one space deeper on every line.
func staircase(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "unheard-of-%d: 1\n", i)
	}
	return b.String()
}

func TestLargeGridIsRejectedBeforeExpansion(t *testing.T) {
	t.Parallel()
	seeds := seedList(400)
	file := "name: x\ndata: {source: a}\ntraining: {cohort: 5, rounds: 5}\ngrid:\n  axes:\n    seed: [" + seeds + "]\n    training.rounds: [" + seeds + "]\n"
	_, err := Parse("x.yaml", []byte(file), Options{})
	must.Say(t, err, "more than 10000 cells")
	small := strings.ReplaceAll(file, seeds, seedList(20))
	if _, err := Parse("x.yaml", []byte(small), Options{MaxCells: 399}); err == nil {
		t.Error("400 cells pass a limit of 399")
	}
	if spec, err := Parse("x.yaml", []byte(small), Options{MaxCells: 400}); err != nil || len(spec.Cells) != 400 {
		t.Errorf("400 cells do not pass a limit of 400: %v", err)
	}
}

// With images, a canaries block gives one error, regardless of its probabilities.
func TestCanariesInImagesAreOneMistake(t *testing.T) {
	t.Parallel()
	const are = "canaries: are sequences of words or bytes, which images cannot contain (data.level: image); "
	for block, remedy := range map[string]string{
		"{design: mislabelled, user_probability: 1/40}":                                     "keep only the design, for the canaries of audit.one_run and audit.many_runs",
		"{design: mislabelled, user_probability: 1/40, example_probability: [10%, 10%]}":    "keep only the design, for the canaries of audit.one_run and audit.many_runs",
		"{user_probability: 1/40}":                                                          "set it to null for this cell",
		"{user_probability: 1/40, example_probability: 10%, format: \"my pin is # # # #\"}": "set it to null for this cell",
	} {
		_, err := Parse("x.yaml", []byte(minimal+"canaries: "+block+"\naudit: {one_run: {canaries: 99}}\n"), Options{Sets: []string{"data.level=image", "model.kind=cnn"}})
		if want := "x.yaml:4:11: " + are + remedy; err == nil || err.Error() != want {
			t.Errorf("canaries: %s:\n%v\nwant\n%s", block, err, want)
		}
	}
}

func TestCanaryDesignMistakeIsReportedOnce(t *testing.T) {
	t.Parallel()
	const designs = "expected one of random, rare-words, own-word, learned, mislabelled"
	empty := "x.yaml:4:11: canaries: has no fields; expected user_probability and example_probability, insertions, or a design for the canaries of audit.one_run and audit.many_runs"
	for _, c := range []struct{ block, audit, set, want string }{
		{"{design: own-word}", "{one_run: {canaries: 99}}", "canaries.design=xx", `--set canaries.design=xx: canaries.design: is "xx"; ` + designs},
		{"{design: own-word}", "{one_run: {canaries: 99}}", "canaries.design=null", empty},
		{"{design: null}", "{one_run: {canaries: 99}}", "seed=2", "x.yaml:4:20: canaries.design: has no value; " + designs + ", or remove the field"},
		{"{}", "{one_run: {canaries: 99}}", "seed=2", empty},
		{"{desing: own-word}", "{one_run: {canaries: 99}}", "seed=2", "x.yaml:4:12: canaries.desing: unknown field; did you mean canaries.design?"},
		{"{design: own-word}", "{one_run: {canaries: 99, design: random}}", "seed=2", "x.yaml:4:20: canaries.design: is own-word, overridden by audit.one_run.design: random; remove one of them"},
		{"{design: own-word}", "{many_runs: {canaries_of: update}}", "training.privacy={clip: 1, noise_multiplier: 1, delta: 1e-5}", "x.yaml:4:20: canaries.design: is own-word, overridden by audit.many_runs.canaries_of: update; remove one of them"},
		{"{design: own-word}", "{membership: {}}", "data.held_out_users.fraction=20%", "x.yaml:4:20: canaries.design: is own-word, but no audit draws canaries by it; add audit.one_run or audit.many_runs, or remove it"},
	} {
		_, err := Parse("x.yaml", []byte(minimal+"canaries: "+c.block+"\naudit: "+c.audit+"\n"), Options{Sets: []string{c.set}})
		if err == nil || err.Error() != c.want {
			t.Errorf("canaries: %s, audit: %s, --set %s:\n%v\nwant\n%s", c.block, c.audit, c.set, err, c.want)
		}
	}
}
