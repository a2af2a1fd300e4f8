package results

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/experiment"
)

// gridSide is a run of two cells, with the given number of canaries memorized
// in the first; the second is pending.
func gridSide(t *testing.T, run, sets string, memorized int) Side {
	t.Helper()
	spec := must.Get(experiment.Parse("grid.yaml", []byte(`
name: grid
data: {source: text.jsonl}
model: {embedding: 8, units: 8}
training: {rounds: 40, cohort: 5}
canaries: {user_probability: 10%, example_probability: 10%}
audit: {random_sampling: {references: 1000}}
grid: {axes: {data.partition: [iid, by-user]}}
`), experiment.Options{Sets: strings.Fields(sets)}))(t)
	r := &Results{Run: run, Experiment: spec.Name}
	for _, c := range spec.Cells {
		r.Cells = append(r.Cells, Cell{Cell: c.Name, Label: c.Label, Axes: c.Axes, Status: Pending})
	}
	r.Cells[0].Status, r.Cells[0].Report = Done, reported(fmt.Sprintf(
		`{"utility": {"recall_at_1": 0.25, "perplexity": 60}, "audit": {"random_sampling": {"memorized": %d, "of": 8}}}`, memorized))
	return Side{Spec: spec, Results: r}
}

func compared(t *testing.T, before, after Side) *Comparison {
	t.Helper()
	return must.Get(Compare(before, after))(t)
}

func TestRunsAreComparedCellByCell(t *testing.T) {
	t.Parallel()
	before, after := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-2", "training.rounds=60 training.client.gradient_clip=0.5", 5)
	var b bytes.Buffer
	must.Do(t, compared(t, before, after).WriteScreen(&b, nil))
	const want = `grid-1 -> grid-2
  training.rounds: 40 -> 60
  training.client.gradient_clip: none -> 0.5

setting  RS memorized  RS rarest (p_u, p_e)  accuracy %  perplexity
-------  ------------  --------------------  ----------  ----------
iid      3/8 -> 5/8    -                     25.0        60.0
by-user  pending       -                     -           -
`
	if b.String() != want {
		t.Errorf("comparison:\n%s\nwant:\n%s", b.String(), want)
	}
}

// The mark of a model that has learned little has its note below the table, and a row of two settings names both.
func TestComparedCellsHaveTheirWarnings(t *testing.T) {
	t.Parallel()
	a, b := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-1", "", 3)
	b.Results.Cells[1].Status, b.Results.Cells[1].Report = Done, reported(`{"utility": {"recall_at_1": 0.01, "perplexity": 700, "tokens": 9000,
		"baseline": {"recall_at_1": 0.052, "perplexity": 389.1, "tokens": 9000}, "at_baseline": true}, "audit": {"random_sampling": {"memorized": 0, "of": 8}}}`)
	var out bytes.Buffer
	must.Do(t, compared(t, must.Get(a.Select("c01"))(t), must.Get(b.Select("c02"))(t)).WriteScreen(&out, nil))
	for _, want := range []string{"\niid -> by-user  3/8 -> 0/8", "60.0 -> 700.0 *", "\ngrid-1/c02 (by-user): * utility is at the level of word or class frequencies"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in the comparison:\n%s", want, out.String())
		}
	}
}

// Fields that nobody wrote take no line of their own.
func TestCompareListsDerivedFieldsTogether(t *testing.T) {
	t.Parallel()
	before := gridSide(t, "grid-1", "", 3)
	after := gridSide(t, "grid-2", "training.algorithm=sgd training.client.learning_rate=0.25", 3)
	var b bytes.Buffer
	must.Do(t, compared(t, before, after).WriteScreen(&b, nil))
	const want = `grid-1 -> grid-2
  training.algorithm: fedavg -> sgd
  training.client.learning_rate: 0.5 -> 0.25
  derived from these: `
	got, found := strings.CutPrefix(b.String(), want)
	derived, _, _ := strings.Cut(got, "\n")
	if !found || !slices.Contains(strings.Split(derived, ", "), "training.chunks") || strings.Contains(got, "training.cohort") {
		t.Errorf("comparison:\n%s\nwant the beginning:\n%s", &b, want)
	}
}

func TestCompareListsUnmatchedCells(t *testing.T) {
	t.Parallel()
	before, after := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-2", "", 3)
	after.Spec.Cells[1].Axes[0].Value = []byte(`"elsewhere"`)
	c := compared(t, before, after)
	if len(c.Pairs) != 1 || len(c.Pairs[0].Fields) != 0 || len(c.OnlyBefore) != 1 || len(c.OnlyAfter) != 1 {
		t.Fatalf("comparison %+v, want one pair and a cell of each run", c)
	}
	var b bytes.Buffer
	must.Do(t, c.WriteScreen(&b, nil))
	for _, want := range []string{"  the experiments are the same\n", "the grids differ: 1 of 3 cells at the same point of both; axes of both: data.partition\n", "to compare two cells: coalmine compare grid-1/c01 grid-2/c01\n", "only in grid-1: by-user\n", "only in grid-2: by-user\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
}

// sampled has the samples of a model whose first words are unknown with probability p;
// count of a thousand samples were.
func sampled(p float64, count int) string {
	return fmt.Sprintf(`{"audit": {"samples": {"samples": 1000, "unknown": {"first_probability": %v, "positions": [{"count": %d, "of": 1000, "share": %v}]}}}}`, p, count, float64(count)/1000)
}

func TestTwoCellsOfARunAreComparedByTheirSamples(t *testing.T) {
	t.Parallel()
	grid := gridSide(t, "grid-1", "", 3)
	for i, report := range []string{sampled(0.06, 65), sampled(0.15, 145)} {
		grid.Results.Cells[i].Status, grid.Results.Cells[i].Report = Done, reported(report)
	}
	var sides []Side
	for _, name := range []string{"c01", "c02"} {
		side := must.Get(grid.Select(name))(t)
		sides = append(sides, side)
	}
	var b bytes.Buffer
	c := compared(t, sides[0], sides[1])
	must.Do(t, c.WriteScreen(&b, nil))
	for _, want := range []string{
		"grid-1/c01 -> grid-1/c02\n  data.partition: iid -> by-user\n",
		"\niid:\n  samples: probability that the first word is out of vocabulary: 0.06 -> 0.15 (exact)\n" +
			"  samples: share out of vocabulary at position 1: 0.065 -> 0.145 (p ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	if p := c.Pairs[0].Changes["samples"][1].P; p == nil || *p > 1e-7 || *p < 1e-12 {
		t.Errorf("changes %+v", c.Pairs[0].Changes)
	}
	_, err := grid.Select("c03")
	must.Say(t, err, `run grid-1 has no cell "c03": it has c01 to c02`)
}

// replicatedSide is a run of replicates with its experiment.
func replicatedSide(t *testing.T, run string) Side {
	t.Helper()
	spec, results := replicatedSpec(t), replicated(t)
	results.Run = run
	return Side{Spec: spec, Results: results}
}

func TestTwoRowsAreComparedSeedBySeed(t *testing.T) {
	t.Parallel()
	side := replicatedSide(t, "grid-1")
	before := must.Get(side.Select("r01"))(t)
	after := must.Get(side.Select("r04"))(t)
	c := compared(t, before, after)
	if len(c.Pairs) != 3 || len(c.OnlyBefore) != 0 || len(c.Rows) != 1 {
		t.Fatalf("%d pairs, %d rows, only before %q", len(c.Pairs), len(c.Rows), c.OnlyBefore)
	}
	for _, p := range c.Pairs {
		for _, f := range p.Fields {
			if f.Path == "seed" {
				t.Errorf("%s is paired with a cell of another seed", p.Label)
			}
		}
	}
	d := c.Rows[0]
	if d.Row != "grid-1/r04" || d.To != "grid-1/r01" || len(d.Seeds) != 2 || !slices.Equal(d.Axes, []string{"data.partition", "training.cohort"}) {
		t.Errorf("difference %+v", d)
	}
	var b bytes.Buffer
	must.Do(t, c.WriteScreen(&b, nil))
	for _, want := range []string{
		"grid-1/r01 -> grid-1/r04\n  data.partition: iid -> by-user\n", "\nsetting       compared with  seeds  RS memorized", "\nby-user, b=8  iid, b=5       2      -5.0, 0:10, p 0.002  -5.0 (-12.0 to +7.7), 0:10, p 0.002  ",
		"grid-1/r04 (by-user, b=8) against grid-1/r01 (iid, b=5): utility is not matched: recall_at_1 differs by -0.01",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	_, err := side.Select("r05")
	must.Say(t, err, `run grid-1 has no cell "r05": it has c01 to c12, and the rows r01 to r04`)
}

// Runs of one experiment differ in nothing, row by row.
func TestRunsOfReplicatesAreComparedRowByRow(t *testing.T) {
	t.Parallel()
	c := compared(t, replicatedSide(t, "grid-1"), replicatedSide(t, "grid-2"))
	if len(c.Rows) != 4 || len(c.Pairs) != 12 {
		t.Fatalf("%d rows, %d pairs", len(c.Rows), len(c.Pairs))
	}
	for i, d := range c.Rows {
		name := fmt.Sprintf("/r%02d", i+1)
		if d.Row != "grid-2"+name || d.To != "grid-1"+name || d.Canaries["memorized"].P != 1 || d.Measures["perplexity"].Mean != 0 || !d.Utility.Matched {
			t.Errorf("difference %+v", d)
		}
	}
}

// A run without replicates has no rows to compare with.
func TestReplicatesAreComparedWithASingleSeedCellByCell(t *testing.T) {
	t.Parallel()
	one := must.Get(replicatedSide(t, "grid-1").Select("c01"))(t)
	alone := gridSide(t, "grid-2", "grid=null", 3)
	c := compared(t, alone, one)
	var b bytes.Buffer
	must.Do(t, c.WriteScreen(&b, nil))
	if len(c.Rows) != 0 || len(c.Pairs) != 1 || !strings.Contains(b.String(), "3/8 -> ") {
		t.Errorf("%d rows, %d pairs:\n%s", len(c.Rows), len(c.Pairs), &b)
	}
}

func TestCompareListsRoundsOfEpochsAsDerived(t *testing.T) {
	t.Parallel()
	before, after := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-2", "training.cohort=10", 3)
	for i, side := range []Side{before, after} {
		for j := range side.Spec.Cells {
			side.Spec.Cells[j].Experiment.Training.Epochs, side.Spec.Cells[j].Experiment.Training.Rounds = 2, 20+i
		}
	}
	var b bytes.Buffer
	must.Do(t, compared(t, before, after).WriteScreen(&b, nil))
	if !strings.Contains(b.String(), "training.cohort: 5 -> 10\n  derived from these: training.rounds, ") {
		t.Errorf("comparison:\n%s", b.String())
	}
}
