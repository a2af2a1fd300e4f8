package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// centralCell adds a cell: n steps of a chain, of a hundred SGD steps each, and a
// tail after them.
func centralCell(b *plantest.Builder, c *plan.Chain, steps, tail int) {
	model, rest := c.At(steps), plan.Tail{}
	if tail > 0 {
		model = b.Node(plantest.Standing, plantest.Params{Salt: fmt.Sprintf("tail of %d after %d", tail, steps)}, model)
		rest = plan.Tail{After: steps, Rounds: tail, Node: model}
	}
	report := b.Node(plantest.Report, plantest.Params{Salt: fmt.Sprintf("report at %d", steps)}, model)
	b.Cells = append(b.Cells, plan.Cell{
		Index: len(b.Cells), Name: fmt.Sprintf("c%02d", len(b.Cells)+1), Report: report, Model: model,
		Chain: c, Tail: rest, Unit: plan.Step,
	})
}

// Progress counts SGD steps, the short last task of a training included: a cell is not
// shown as trained while that runs, nor by the steps of a longer cell on its chain.
func TestProgressCountsTheTailOfATraining(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	c := b.Chain(plantest.ChainOptions{Salt: "x", Steps: 6, Keep: []int{4}}, origin)
	c.StepRounds = 100
	centralCell(b, c, 4, 99)
	centralCell(b, c, 6, 0)
	w := newWorld(t, 5, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	id := w.submit("a", 0)
	shown := [2][]int{}
	for s := new(status.Run); s.Phase != runs.Done; w.step() {
		if w.term.records.byID[id] == nil {
			continue
		}
		s = w.term.status(w.run(id))
		for i, c := range s.Cells {
			if c.Unit != plan.Step || c.Steps != []int{499, 600}[i] || c.Phase == runs.Done && c.Step != c.Steps {
				w.fail("cell %+v", c)
			}
			if done := w.archiveHas(b.Cells[i].Model); c.Step == c.Steps && !done {
				w.fail("cell %s is shown as trained without its model", c.Cell)
			}
			if n := len(shown[i]); n == 0 || shown[i][n-1] != c.Step {
				shown[i] = append(shown[i], c.Step)
			}
		}
	}
	if want := []int{0, 100, 200, 300, 400, 499}; !slices.Equal(shown[0], want) {
		t.Errorf("the training with a tail shows %v, want %v", shown[0], want)
	}
	if want := []int{0, 100, 200, 300, 400, 500, 600}; !slices.Equal(shown[1], want) {
		t.Errorf("the training without one shows %v, want %v", shown[1], want)
	}
}

// archiveHas reports whether a node is committed.
func (w *world) archiveHas(r plan.Ref) bool {
	has, err := w.archive.HasCommit(w.t.Context(), r.Key)
	return err == nil && has
}
