package coordinator

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

func TestSpecIsReadAgainForEachPlan(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 5, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
	w.faults = 100
	var planned []string
	compile := w.term.Compile
	w.term.Compile = func(ctx context.Context, r *runs.Run) (plan.Parts, error) {
		planned = append(planned, r.ID+" "+string(r.Spec.Experiment))
		return compile(ctx, r)
	}
	id := w.submit("a", 0)
	for range 2 {
		w.until(func() bool { return w.term.records.byID[id] != nil && w.run(id).State.Phase == runs.Running })
		if r := w.run(id); r.spec != nil || r.record.Spec.Experiment != nil {
			w.fail("the spec is held beside the plan: %v, %+v", r.spec, r.record.Spec)
		}
		w.steer(id, runs.Entry{Kind: runs.CancelEntry})
		w.untilPhase(runs.Cancelled, id)
		w.steer(id, runs.Entry{Kind: runs.ResumeEntry})
	}
	w.until(func() bool { return w.run(id).State.Phase == runs.Done })
	if want := slices.Repeat([]string{id + " a"}, 3); !slices.Equal(planned, want) {
		w.fail("planned %q, want %q", planned, want)
	}
}

func TestResumedRunWithDamagedSpecIsRejected(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 6, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
	id := w.submit("a", 0)
	w.untilPhase(runs.Running, id)
	w.steer(id, runs.Entry{Kind: runs.CancelEntry})
	w.untilPhase(runs.Cancelled, id)
	ctx := context.Background()
	must.Do(t, w.service.Steer(ctx, id, runs.Entry{Kind: runs.ResumeEntry}))
	must.Do(t, w.memory.Put(ctx, "runs/"+id+"/spec", bytes.NewReader([]byte("{")), storage.Durable))
	w.term.records.nudged()
	tries := 0
	w.until(func() bool {
		r := w.run(id)
		tries = max(tries, r.PlanTries)
		return r.State.Phase == runs.Failed
	})
	if said := w.run(id).State.Error; !strings.Contains(said, "record of run "+id) || tries != policy.MaxPlans-1 {
		w.fail("rejected after %d tries with %q", tries, said)
	}
}
