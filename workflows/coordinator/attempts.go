package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/childprocess"
	"coalmine/internal/queue"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

// launch begins an attempt at a task, charged to a run; sendOff sends it.
func (t *term) launch(x *graph.Task, r *graph.Run) {
	t.dispatcher.Launched(x, r)
	a := t.graph.Launch(x, r, t.dispatcher.ClassOf(x), t.foreign[x.Key], t.now())
	a.Span = t.spans.Attempt(a)
	attempt := attempts.Attempt{
		Spec: x.Spec(), Number: a.Number, Runs: x.RunIDs(), Trace: a.Span.Envelope(),
		Leader: t.leader,
	}
	attempt.TimeoutSeconds = t.timeout(attempt.Terms)
	m := queue.Message{ID: a.ID, Class: string(a.Class), Payload: attempt.Encode()}
	span := a.Span.Child("enqueue")
	t.launching = append(t.launching, outgoing{a, m, span.End})
}

// timeout returns the maximum duration of an attempt in seconds: TaskTimeout plus the time limit of its
// command, because preparing and reading the command's directory takes time too.
func (t *term) timeout(terms json.RawMessage) float64 {
	limits, err := childprocess.DecodeTerms(terms)
	if err != nil {
		return t.TaskTimeout.Seconds() // the task itself reports invalid terms
	}
	return t.TaskTimeout.Seconds() + limits.Seconds
}

// sendBatch is the number of attempts sent at once.
const sendBatch = 128

// sendOff sends the attempts that have been launched since it was last called.
func (t *term) sendOff() {
	for batch := range slices.Chunk(t.launching, sendBatch) {
		t.start(sending, func(ctx context.Context) func() {
			messages := make([]queue.Message, len(batch))
			for i, l := range batch {
				messages[i] = l.message
			}
			err := t.Queue.Enqueue(ctx, messages...)
			return func() {
				for _, l := range batch {
					l.end(err)
					t.launched(l.attempt, err)
				}
			}
		})
	}
	t.launching = nil
}

func (t *term) launched(a *graph.Attempt, err error) {
	if err != nil {
		t.queueFails(err)
		if t.graph.Attempt(a.ID) == a {
			t.land(a)
			if a.Task.Number == a.Number {
				a.Task.Number-- // the same number again: if the message did arrive, both are one attempt
			}
			t.relaunch(a.Task)
		}
		return
	}
	t.queueTakes()
	a.Acked = true
	if a.Stopping {
		t.stop(a) // the first request may have overtaken the message
	}
}

func (t *term) land(a *graph.Attempt) {
	a.Span.End(nil)
	t.graph.RemoveAttempt(a)
}

// relaunch retries a task that is still wanted, ahead of the backlog.
func (t *term) relaunch(x *graph.Task) {
	if x.State() == graph.Idle {
		x.Urgent = true
		t.graph.Requeue(x)
	}
}

// stop asks the worker of an attempt to stop it.
func (t *term) stop(a *graph.Attempt) {
	t.send(func(ctx context.Context) (func(), error) {
		withdrawn, err := t.Queue.Withdraw(ctx, a.ID)
		if err == nil && !withdrawn {
			err = t.Queue.Stop(ctx, a.ID)
		}
		return func() {
			if withdrawn && a.Acked && t.graph.Attempt(a.ID) == a {
				t.land(a)
				t.relaunch(a.Task)
			}
		}, err
	})
}

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
		err = fmt.Errorf("its content is about attempt %s", graph.AttemptID(o.Key, o.Number))
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
		t.cannotHelp(r.Worker, "it cannot read attempts in this coordinator's format: "+o.Error)
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

// unreadable handles a report that cannot be read, for instance of a later build. The attempt is over. If
// it was done, storage has its output; otherwise another attempt follows. It counts neither as a failure of
// the task nor as a death of its worker.
func (t *term) unreadable(r queue.Report, a *graph.Attempt, err error) {
	t.log.Warn("a report cannot be read; looking for the attempt's commit in storage", "message", r.ID, "worker", r.Worker, "error", err)
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
