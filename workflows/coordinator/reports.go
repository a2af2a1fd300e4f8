package coordinator

import (
	"encoding/json"

	"coalmine/internal/queue"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

func (t *term) reports(reports []queue.Report) {
	for _, r := range reports {
		t.report(r)
	}
}

// report takes a worker's word on an attempt.
func (t *term) report(r queue.Report) {
	if r.IsNudge() {
		t.records.nudged()
		return
	}
	var o attempts.Outcome
	if err := json.Unmarshal(r.Body, &o); err != nil || graph.AttemptID(o.Key, o.Number) != r.ID {
		t.log.Warn("a report makes no sense; the attempt will be looked for in storage", "message", r.ID, "worker", r.Worker, "error", err)
		return
	}
	a := t.graph.Attempt(r.ID)
	if a == nil {
		t.stray(o)
		return
	}
	if a.Worker == "" {
		a.Worker = r.Worker
	}
	x := a.Task
	t.spans.Outcome(a, o)
	t.land(a)
	t.counters.CountAttempt(x.Kind(), string(o.Result))
	if o.Divergent != "" {
		t.diverged(x, o)
	}
	if o.Result == attempts.Done {
		t.tookOver(x, r.Worker)
	}
	if x.State() != graph.Finished {
		t.outcome(a, o)
		return
	}
	if ch := x.Chain(); ch != nil && o.Result == attempts.Done {
		t.deletions.late(ch, x.Key) // a standing node that is there twice is there once
	}
}

// stray deals with a report on an attempt that this term does not have in its
// books: from the term before, or given up for lost. It is a hint to look.
func (t *term) stray(o attempts.Outcome) {
	if o.Result != attempts.Done {
		return
	}
	for _, a := range t.graph.AttemptsInOrder() {
		if a.Task.Key == o.Key {
			t.recheck(a)
			return
		}
	}
	for _, ch := range t.graph.Chains() {
		t.deletions.late(ch, o.Key)
	}
}
