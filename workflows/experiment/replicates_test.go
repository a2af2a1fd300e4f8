package experiment

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
)

const smallCohort = "name: x\ndata: {source: a.jsonl}\ntraining: {cohort: 5, rounds: 100}\n"

// overSeeds is a grid of two points with an included one.
const overSeeds = smallCohort + "seed: 3\ngrid: {axes: {data.partition: [iid, by-user]}, include: [{training.cohort: 8}], replicates: "

// rowsOf are the cells with their rows: "c01 r01 iid, seed 3".
func rowsOf(spec *Spec) (lines []string) {
	for _, c := range spec.Cells {
		lines = append(lines, fmt.Sprintf("%s %s %s | %s | %s", c.Name, c.Row.Name, c.Label, c.Row.Label, c.Axes))
	}
	return lines
}

func TestReplicatesAreTheCellsOfARow(t *testing.T) {
	t.Parallel()
	const want = `c01 r01 iid, b=5, seed 3 | iid, b=5 | data.partition=iid, seed=3
c02 r02 by-user, b=5, seed 3 | by-user, b=5 | data.partition=by-user, seed=3
c03 r03 by-user, b=8, seed 3 | by-user, b=8 | training.cohort=8, seed=3
c04 r01 iid, b=5, seed 4 | iid, b=5 | data.partition=iid, seed=4
c05 r02 by-user, b=5, seed 4 | by-user, b=5 | data.partition=by-user, seed=4
c06 r03 by-user, b=8, seed 4 | by-user, b=8 | training.cohort=8, seed=4`
	for _, form := range []string{"2}\n", "[3, 4]}\n"} {
		if got := strings.Join(rowsOf(parse(t, overSeeds+form)), "\n"); got != want {
			t.Errorf("replicates: %sgives\n%s\nwant\n%s", form, got, want)
		}
	}
	for set, want := range map[string]uint64{"seed=9": 10, "seed=null": 2, "grid.replicates=[8, 6]": 6} {
		if got := parse(t, overSeeds+"2}\n", set).Cells[5].Experiment.Seed; got != want {
			t.Errorf("--set %s: the second replicate has seed %d; want %d", set, got, want)
		}
	}
}

// The cells of a further seed stand at the end: the cells before it keep their names.
func TestFurtherSeedAddsCells(t *testing.T) {
	t.Parallel()
	few, more := parse(t, overSeeds+"2}\n"), parse(t, overSeeds+"3}\n")
	for i, c := range few.Cells {
		if more.Cells[i].Name != c.Name || !bytes.Equal(more.Cells[i].Experiment.Canonical(), c.Experiment.Canonical()) {
			t.Errorf("cell %s is %s, %s with a third seed", c.describe(), more.Cells[i].Name, more.Cells[i].Axes)
		}
	}
	if len(few.Cells) != 6 || len(more.Cells) != 9 {
		t.Errorf("%d and %d cells", len(few.Cells), len(more.Cells))
	}
}

// A replicate is the experiment that the file gives with that seed and no replicates.
func TestReplicateMatchesCellOfItsSeed(t *testing.T) {
	t.Parallel()
	spec := parse(t, overSeeds+"[7, 1]}\n")
	for i, seed := range []string{"7", "1"} {
		alone := parse(t, overSeeds+"null}\n", "seed="+seed)
		for j, c := range alone.Cells {
			if got := spec.Cells[3*i+j]; !bytes.Equal(got.Experiment.Canonical(), c.Experiment.Canonical()) {
				t.Errorf("%s differs from %s with seed %s", got.describe(), c.describe(), seed)
			}
			if c.Row != nil {
				t.Errorf("%s has a row without replicates", c.describe())
			}
		}
	}
}

func TestSingleCellHasReplicates(t *testing.T) {
	t.Parallel()
	spec := parse(t, smallCohort+"grid: {replicates: 2}\n")
	if got := strings.Join(rowsOf(spec), "\n"); len(spec.Cells) != 2 || !strings.Contains(got, "c02 r01 by-user, FedAvg, b=5, seed 2 | by-user, FedAvg, b=5 | seed=2") {
		t.Errorf("cells:\n%s", got)
	}
}

// A row may lack a seed.
func TestExcludedReplicatesLeaveTheirRowsNumbered(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal+"grid: {axes: {data.partition: [iid, by-user]}, exclude: [{seed: 1, data.partition: iid}, {seed: 2, data.partition: by-user}], replicates: 2}\n")
	got := strings.Join(rowsOf(spec), "\n")
	if want := "c01 r02 by-user, seed 1 | by-user | data.partition=by-user, seed=1\nc02 r01 iid, seed 2 | iid | data.partition=iid, seed=2"; got != want {
		t.Errorf("cells:\n%s\nwant:\n%s", got, want)
	}
}

func TestMistakesInReplicates(t *testing.T) {
	t.Parallel()
	for grid, want := range map[string]string{
		"{replicates: 0}":                       "grid.replicates: is 0; expected the number of seeds, 1 to 10000, or a list",
		"{replicates: many}":                    `grid.replicates: is "many"; expected the number`,
		"{replicates: {}}":                      "grid.replicates: is an empty block of fields; expected the number",
		"{replicates: []}":                      "grid: is empty; expected axes or include with at least one value, or replicates",
		"{replicates: [1, 1]}":                  "grid.replicates: has the seed 1 twice",
		"{replicates: [1, -1]}":                 "seed: is -1; expected a whole number",
		"{replicates: 20000}":                   "1 to 10000",
		"{replicates: 2, axes: {seed: [5, 6]}}": "grid.axes.seed: is given together with grid.replicates, and both set the seed: an axis compares seeds",
		"{replicates: 2, include: [{seed: 5}]}": "grid.include.seed: is given together with grid.replicates",
		"{replicates: 200, axes: {training.cohort: [" + seedList(51) + "]}}": "has more than 10000 cells",
	} {
		_, err := Parse("x.yaml", []byte(minimal+"grid: "+grid+"\n"), Options{})
		must.Say(t, err, want)
	}
	for set, want := range map[string]string{
		"grid.replicates=[4, 5]": "",
		"seed=2":                 "seed: grid.replicates overrides this field with its list of seeds",
	} {
		_, err := Parse("x.yaml", []byte(minimal+"grid: {replicates: [1, 2]}\n"), Options{Sets: []string{set}})
		if fmt := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(fmt, want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	if _, err := Parse("x.yaml", []byte(minimal+"grid: {replicate: 3}\n"), Options{}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "grid.replicate: unknown field; expected one of axes, include, exclude, replicates; did you mean replicates?") {
		t.Errorf("a misspelled replicates: %v", err)
	}
	if _, err := Parse("x.yaml", []byte(minimal+"seed: 9007199254740991\ngrid: {replicates: 2}\n"), Options{}); err == nil || strings.Count(err.Error(), "\n") > 1 {
		t.Errorf("a seed beyond the largest: %v", err)
	}
}

func TestRecordKeepsRows(t *testing.T) {
	t.Parallel()
	spec := parse(t, overSeeds+"2}\n")
	again, err := ReadSpec(spec.Canonical())
	if err != nil || !bytes.Equal(again.Canonical(), spec.Canonical()) {
		t.Fatalf("the spec comes back otherwise (%v)", err)
	}
	for want, spoil := range map[string]func(*Cell){
		"its row is called \"x\"":        func(c *Cell) { c.Row = &Row{Name: "x"} },
		"the label of its row has 70000": func(c *Cell) { c.Row = &Row{Name: "r01", Label: strings.Repeat("x", 70000)} },
		"seed, 3, is not its last axis":  func(c *Cell) { c.Axes = c.Axes[:1] },
		"seed, 4, is not its last axis":  func(c *Cell) { c.Experiment.Seed = 4 },
	} {
		broken := parse(t, overSeeds+"2}\n")
		spoil(&broken.Cells[0])
		must.Say(t, broken.Cells[0].checkRow(), want)
	}
	for i := range spec.Cells {
		if err := spec.Cells[i].checkRow(); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryFieldHasAPage(t *testing.T) {
	t.Parallel()
	paths := Paths()
	if len(paths) < len(allPaths())+len(gridFields) {
		t.Errorf("%d pages, fewer than fields", len(paths))
	}
	for _, path := range append(allPaths(), paths...) {
		page, err := Explain(path)
		if err != nil || page.Path != path || page.Value == "" || page.Default == "" || page.Meaning == "" {
			t.Errorf("%s: %+v, %v", path, page, err)
		}
	}
}

func TestExplainMatchesReference(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Page{
		"training.privacy.noise_multiplier": {Value: "a number from 0 to 1000000", Default: "0", Meaning: "standard deviation z x clip / cohort"},
		"training.privacy":                  {Value: "a block of fields", Default: "absent", Meaning: "Differential privacy"},
		"audit.deanonymization.attacks":     {Value: "one or more of mlp, svm", Default: "absent", Meaning: "Attacks"},
		"canaries.insertions":               {Value: "a whole number from 1 to 1000000000; or a list", Default: "absent", Meaning: "Training examples"},
		"data.faults.fault":                 {Value: "one of join-words", Default: "required", Meaning: "Kind of fault"},
		"canaries.formats.words":            {Value: "a whole number from 1 to 1000", Default: "5", Meaning: "Words"},
		"training.client.learning_rate":     {Value: "a number from 1e-37", Default: "depends", Meaning: "0.5 for clients"},
		"grid.replicates":                   {Value: "or a list of seeds", Default: "absent", Meaning: "Seeds"},
		"":                                  {Value: "a block", Default: "by field", Meaning: "experiment"},
		"model":                             {Value: "a block", Default: "by field", Meaning: "network"},
	} {
		page, err := Explain(path)
		if err != nil || !strings.Contains(page.Value, want.Value) || page.Default != want.Default || !strings.Contains(page.Meaning, want.Meaning) {
			t.Errorf("%q: %+v, %v; want %+v", path, page, err, want)
		}
	}
}

func TestUnknownPathSuggestsField(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"training.privacy.nois_multiplier": "training.privacy.noise_multiplier", "lr": "training.client.learning_rate",
		"trainng.cohort": "training.cohort", "seeds": "grid.replicates", "training.clint": "training.client",
	} {
		if _, err := Explain(path); err == nil || !strings.HasSuffix(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Explain("model.units.of.nothing"); err == nil {
		t.Error("a path below a value has a page")
	}
}

// A name of the table is no field of the block in which it is looked up, and each suggestion has a page.
func TestForeignNamesMapToFields(t *testing.T) {
	t.Parallel()
	for name, paths := range foreign {
		for path := range strings.SplitSeq(paths, " or ") {
			if _, err := Explain(path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, ok := lookup(name); ok {
			t.Errorf("%s is a field of the experiment", name)
		}
	}
}
