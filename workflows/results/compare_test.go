package results

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"coalmine/workflows/experiment"
)

// gridSide is a run of two cells, with so many canaries memorized in the first;
// the second is pending.
func gridSide(t *testing.T, run, sets string, memorized int) Side {
	t.Helper()
	spec, err := experiment.Parse("grid.yaml", []byte(`
name: grid
data: {source: text.jsonl}
model: {embedding: 8, units: 8}
training: {rounds: 40, cohort: 5}
canaries: {user_probability: 10%, example_probability: 10%}
audit: {random_sampling: {references: 1000}}
grid: {axes: {data.partition: [iid, by-user]}}
`), experiment.Options{Sets: strings.Fields(sets)})
	if err != nil {
		t.Fatal(err)
	}
	r := &Results{Run: run, Experiment: spec.Name}
	for _, c := range spec.Cells {
		r.Cells = append(r.Cells, Cell{Cell: c.Name, Label: c.Label, Axes: c.Axes, Status: Pending})
	}
	r.Cells[0].Status, r.Cells[0].Report = Done, reported(fmt.Sprintf(
		`{"utility": {"recall_at_1": 0.25, "perplexity": 60}, "audit": {"random_sampling": {"memorized": %d, "of": 8}}}`, memorized))
	return Side{spec, r}
}

func TestRunsAreComparedCellByCell(t *testing.T) {
	t.Parallel()
	before, after := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-2", "training.rounds=60 training.client.gradient_clip=0.5", 5)
	var b bytes.Buffer
	if err := Compare(before, after).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	const want = `grid-1 -> grid-2
  training.rounds: 40 -> 60
  training.client.gradient_clip: none -> 0.5

setting  RS memorized  RS lowest (p_u, p_e)  BS memorized  BS lowest  accuracy %  perplexity
-------  ------------  --------------------  ------------  ---------  ----------  ----------
iid      3/8 -> 5/8    -                     -             -          25.0        60.0
by-user  pending       -                     -             -          -           -
`
	if b.String() != want {
		t.Errorf("comparison:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestCellsOfOneRunAloneAreNamed(t *testing.T) {
	t.Parallel()
	before, after := gridSide(t, "grid-1", "", 3), gridSide(t, "grid-2", "", 3)
	after.Spec.Cells[1].Axes[0].Value = []byte(`"elsewhere"`)
	c := Compare(before, after)
	if len(c.Pairs) != 1 || len(c.Pairs[0].Fields) != 0 || len(c.OnlyBefore) != 1 || len(c.OnlyAfter) != 1 {
		t.Fatalf("comparison %+v, want one pair and a cell of each run", c)
	}
	var b bytes.Buffer
	if err := c.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  the experiments are the same\n", "only in grid-1: by-user\n", "only in grid-2: by-user\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
}
