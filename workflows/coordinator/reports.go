package coordinator

import (
	"errors"
	"fmt"

	"coalmine/internal/queue"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

func (t *term) reports(reports []queue.Report) {
	for _, r := range reports {
		t.report(r)
	}
}

// report applies a worker's report on an attempt.
func (t *term) report(r queue.Report) {
	if r.IsNudge() {
		t.records.nudged()
		return
	}
	o, err := attempts.DecodeOutcome(r.Body)
	if err == nil && graph.AttemptID(o.Key, o.Number) != r.ID {
		err = fmt.Errorf("it is about attempt %s", graph.AttemptID(o.Key, o.Number))
	}
	a := t.graph.Attempt(r.ID)
	if a != nil && a.Worker == "" {
		a.Worker = r.Worker
	}
	switch {
	case err != nil:
		t.unreadable(r, a, err)
		return
	case a == nil:
		t.stray(o)
		return
	case o.Unread:
		t.cannotHelp(r.Worker, "it reads no attempts of this coordinator's format: "+o.Error)
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
		t.deletions.late(ch, x.Key) // a standing node that is stored twice is one object
	}
}

// unreadable handles a report that cannot be read, for instance of a later build. The attempt is over. If it
// was done, storage has its output; otherwise another follows, which is neither a failure of the task nor a
// death of its worker.
func (t *term) unreadable(r queue.Report, a *graph.Attempt, err error) {
	t.log.Warn("a report cannot be read; the attempt is looked for in storage", "message", r.ID, "worker", r.Worker, "error", err)
	if errors.Is(err, attempts.ErrLaterFormat) {
		t.cannotHelp(r.Worker, "this coordinator cannot read its reports: "+err.Error())
	}
	if a == nil {
		return
	}
	t.checkThen(a, func() {
		t.land(a)
		t.counters.CountAttempt(a.Task.Kind(), string(attempts.Returned))
		t.handedBack(a, fmt.Sprintf("the report of worker %s cannot be read: %v", r.Worker, err))
	})
}

// cannotHelp records that this coordinator cannot work with the build of a worker.
func (t *term) cannotHelp(worker, why string) {
	if t.dispatcher.Exclude(worker, why) {
		t.changed = true
		t.log.Warn("a worker cannot help", "worker", worker, "because", why)
	}
}

// stray handles a report on an attempt that this term does not track: sent by
// the previous term, or presumed lost. It is a hint to look in storage.
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
