package coordinator

import (
	"context"
	"slices"
	"testing"

	"coalmine/workflows/explanation"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

func explain(t *testing.T, w *world, p *plan.Plan) *explanation.Plan {
	t.Helper()
	x, err := explanation.Explain(context.Background(), p, w.archive)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// training is the only chain of an explained plan.
func training(x *explanation.Plan) *explanation.Chain {
	for _, c := range x.Chains {
		return c
	}
	return nil
}

func TestExplainSaysWhatRunsAndWhy(t *testing.T) {
	t.Parallel()
	p := federated(t, chainOptions{salt: "x", width: 2, steps: 330, keep: []int{100, 250}, big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"a": p})

	x := explain(t, w, p)
	if x.Cells[0].Cached || training(x).StepsToRun() != 330 {
		t.Errorf("an empty store: %+v, %+v", x.Cells[0], training(x))
	}
	want := explanation.Group{Kind: standingKind.Name, ToRun: 5, Why: []string{"not committed"}}
	if got := x.Cells[0].Groups[1]; got.Kind != want.Kind || got.ToRun != want.ToRun || !slices.Equal(got.Why, want.Why) {
		t.Errorf("group %+v, want %+v", got, want)
	}

	w.untilPhase(runs.Done, w.submit("a", 0))
	w.settle()
	x = explain(t, w, p)
	if !x.Cells[0].Cached || len(training(x).Passes) > 0 {
		t.Errorf("after the run: %+v, %+v", x.Cells[0], training(x))
	}
	if got := x.Nodes[p.Cells[0].Chain.Origin.Key].Disposition; got != explanation.NotNeeded {
		t.Errorf("the initial model of a cached training is %q, want %q", got, explanation.NotNeeded)
	}

	audits := federated(t, chainOptions{salt: "x", width: 2, steps: 400, keep: []int{120, 250, 251}, big: true})
	x = explain(t, w, audits)
	passes := []explanation.Pass{{From: 100, To: 120}, {From: 250, To: 251}, {From: 330, To: 400}}
	if got := training(x).Passes; !slices.Equal(got, passes) {
		t.Errorf("passes %v, want %v", got, passes)
	}
	why := []string{"replay to 120 from the checkpoint at 100", "replay to 251 from the checkpoint at 250", "train to 400 from the checkpoint at 330"}
	if got := training(x).Why(); !slices.Equal(got, why) {
		t.Errorf("reasons %q, want %q", got, why)
	}
}

// A longer run closes the segment in which a shorter one ended, and the records
// of that segment's steps go; the shorter one's checkpoints are there all the same.
func TestExplainFindsTheCheckpointsOfAShorterRun(t *testing.T) {
	t.Parallel()
	short := federated(t, chainOptions{salt: "x", width: 2, steps: 60, keep: []int{30}, big: true})
	long := federated(t, chainOptions{salt: "x", width: 2, steps: 130, big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"short": short, "long": long})
	w.untilPhase(runs.Done, w.submit("short", 0))
	w.untilPhase(runs.Done, w.submit("long", 0))
	w.settle()

	if x := explain(t, w, short); !x.Cells[0].Cached {
		t.Errorf("the shorter run: %+v, passes %v, want it cached", x.Cells[0], training(x).Passes)
	}
	other := federated(t, chainOptions{salt: "x", width: 2, steps: 60, keep: []int{30, 50}, big: true})
	why := []string{"replay to 50 from the checkpoint at 30"}
	if got := training(explain(t, w, other)).Why(); !slices.Equal(got, why) {
		t.Errorf("with one more audit: %q, want %q", got, why)
	}
}

func TestExplainNamesEvictedBlobs(t *testing.T) {
	t.Parallel()
	b := newBuilder()
	n := b.node(standingKind, hashParams{Salt: "n", Big: true})
	b.cell(b.node(reportKind, hashParams{Salt: "r"}, n), n)
	p := b.done(t)
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"a": p})
	w.untilPhase(runs.Done, w.submit("a", 0))
	commit, err := w.archive.Committed(context.Background(), n.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.archive.DeleteBlobs(context.Background(), commit); err != nil {
		t.Fatal(err)
	}
	x := explain(t, w, p)
	if got := x.Nodes[n.Key]; got.Disposition != explanation.ToRun || got.Why != "evicted: model" {
		t.Errorf("node %+v, want it to run since its model was evicted", got)
	}
}

func TestAWorldRepeatsExactly(t *testing.T) {
	t.Parallel()
	trace := func() []string {
		p := federated(t, chainOptions{salt: "x", width: 3, steps: 30, keep: []int{10}, big: true})
		w := newWorld(t, 7, chaos{flush: 2, killWorker: 2, restart: 2, loseReport: 20, queueAway: 1}, map[string]*plan.Plan{"a": p, "b": p})
		w.untilPhase(runs.Done, w.submit("a", 0), w.submit("b", 0))
		return w.trace
	}
	if a, b := trace(), trace(); !slices.Equal(a, b) {
		t.Error("the same seed led to different events")
	}
}
