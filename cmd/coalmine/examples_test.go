package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/examples"
	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// inEmptyFolder runs this program in a folder of its own, as a user who has no clone does.
func inEmptyFolder(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	testserver.WithoutRace(t)
	program := exec.CommandContext(t.Context(), os.Args[0], args...)
	program.Dir = folder
	program.Env = append(os.Environ(), asCommand+"=1")
	output, err := program.CombinedOutput()
	return string(output), err
}

func TestExamplesPlanFromAnyFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, args := range [][]string{
		{"plan", "examples/quickstart.yaml"},
		{"plan", "quickstart"},
		{"plan", "examples/thakkar-2020/table-1-small.yaml"},
		{"plan", "examples/external/transformer/experiment.yaml"}, // its data and its code are beside it
		{"plan", "external/transformer/experiment", "--set", "training.epochs=1"},
		{"data", "inspect", "examples/data/state-of-the-union.jsonl.gz", "--words", "400"},
	} {
		if output, err := inEmptyFolder(t, folder, args...); err != nil {
			t.Errorf("%v: %v\n%s", args, err, output)
		}
	}
	listed, err := inEmptyFolder(t, folder, "data", "example")
	if names := strings.Fields(listed); err != nil || !slices.Equal(names, examples.Names()) {
		t.Errorf("%v: %d names; expected those of all %d examples", err, len(names), len(examples.Names()))
	}
	refuses(t, "did you mean examples/thakkar-2020/table-1.yaml?", "plan", "examples/thakkar-2020/table1.yaml")
	for _, name := range []string{"figure1.yaml", "nothing", "../quickstart.yaml", ""} { // the end of a name may be a slip in one's own
		if output, err := inEmptyFolder(t, folder, "plan", name); err == nil || !strings.Contains(output, "coalmine data example lists") {
			t.Errorf("plan %q: %v, without advice:\n%s", name, err, output)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "mine.yaml"), nil, 0o600))
	for name, advice := range map[string]string{
		"mine.yml":  "did you mean mine.yaml?",
		"mime.yaml": "did you mean mine.yaml?",
		"./mine":    "did you mean ./mine.yaml?",
		"quickstrt": "did you mean quickstart?",
		"examples/carlini-2019/table2-small.yaml": "to make it here: coalmine data example carlini-2019/table2-small",
		"thakkar-2020/table-1":                    "see docs/data.md",
	} {
		if output, err := inEmptyFolder(t, folder, "plan", name); err == nil || !strings.Contains(output, advice) {
			t.Errorf("plan %s: %v, without the advice %q:\n%s", name, err, advice, output)
		}
	}
}

func TestExampleDataAreMadeOnceElsewhere(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	for _, example := range madeExamples() {
		if output, err := inEmptyFolder(t, folder, "data", "example", example); err != nil {
			t.Fatalf("%s: %v\n%s", example, err, output)
		}
		if output, err := inEmptyFolder(t, folder, "plan", "examples/"+example+".yaml"); err != nil {
			t.Errorf("%s: %v\n%s", example, err, output)
		}
		if output, err := inEmptyFolder(t, folder, "data", "example", example); err == nil || !strings.Contains(output, "--force") {
			t.Errorf("%s is replaced without being asked: %v\n%s", example, err, output)
		}
	}
	first, err := os.ReadFile(filepath.Join(folder, "secrets.jsonl"))
	if output, again := inEmptyFolder(t, folder, "data", "example", "table2-small", "--force"); again != nil {
		t.Errorf("%v\n%s", again, output)
	}
	if second, _ := os.ReadFile(filepath.Join(folder, "secrets.jsonl")); err != nil || len(first) == 0 || !bytes.Equal(first, second) {
		t.Errorf("%v: the data differ when they are made again", err)
	}
	refuses(t, "its data are not generated", "data", "example", "quickstart")
}
