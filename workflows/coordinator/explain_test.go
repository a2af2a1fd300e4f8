package coordinator

import (
	"context"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/forecast"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

func explain(t *testing.T, w *world, p *plan.Plan) *forecast.Explanation {
	t.Helper()
	return must.Get(forecast.Explain(context.Background(), p, w.archive))(t)
}

// training is the only chain of an explained plan.
func training(x *forecast.Explanation) *forecast.Chain {
	for _, c := range x.Chains {
		return c
	}
	return nil
}

// A longer run closes the segment in which a shorter one ended, and the records
// of that segment's steps go; the shorter one's checkpoints are there all the same.
func TestExplainFindsTheCheckpointsOfAShorterRun(t *testing.T) {
	t.Parallel()
	short := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 60, Keep: []int{30}, Big: true})
	long := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 130, Big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"short": short, "long": long})
	w.untilPhase(runs.Done, w.submit("short", 0))
	w.untilPhase(runs.Done, w.submit("long", 0))
	w.settle()

	if x := explain(t, w, short); !x.Cells[0].Cached {
		t.Errorf("the shorter run: %+v, passes %v, want it cached", x.Cells[0], training(x).Passes)
	}
	other := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 60, Keep: []int{30, 50}, Big: true})
	why := []string{"replay to 50 from the checkpoint at 30"}
	if got := training(explain(t, w, other)).Reasons(); !slices.Equal(got, why) {
		t.Errorf("with one more audit: %q, want %q", got, why)
	}
}

func TestWorldIsDeterministic(t *testing.T) {
	t.Parallel()
	trace := func() []string {
		p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 3, Steps: 30, Keep: []int{10}, Big: true})
		w := newWorld(t, 7, chaos{flush: 2, killWorker: 2, restart: 2, loseReport: 20, queueAway: 1}, map[string]*plan.Plan{"a": p, "b": p})
		w.untilPhase(runs.Done, w.submit("a", 0), w.submit("b", 0))
		return w.trace
	}
	if a, b := trace(), trace(); !slices.Equal(a, b) {
		t.Error("the same seed led to different events")
	}
}
