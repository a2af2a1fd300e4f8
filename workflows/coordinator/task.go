package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

// task is a node that has to be run, with its attempts.
type task struct {
	key   storage.Key
	label string
	spec  tasks.Spec
	owner owner
	// wants are the runs that need it; rank and seq order it among the work of
	// a run.
	wants []*run
	rank  int
	seq   int

	state taskState
	// urgent tasks go ahead of the backlog: their worker was lost, or others
	// have begun to wait for them.
	urgent   bool
	attempts []*attempt
	// number is that of the last attempt; tries and deaths count what went
	// wrong with them.
	number   int
	tries    int
	returned int
	deaths   []runs.Death
	lastErr  string
	store    status.WaitReason // status.WaitStore or status.WaitSpace, if the store failed the last attempt
	waiting  time.Time         // until when a failed attempt is not repeated
	span     tracing.Span      // of a standing node, from its first attempt to its end
}

// owner is what a task belongs to: a standing node or a step.
type owner interface {
	// committed says that the task's output is there, and which of it are objects
	// of their own; nil if that is not known.
	committed(t *term, task *task, objects []storage.Blob)
	// input finds one of the task's inputs, false if it has no such input.
	input(t *term, task *task, key storage.Key) (input, bool)
	// requeue has an idle task run as soon as its inputs are there.
	requeue(t *term, task *task)
	// late says that an attempt has committed the task after it was dropped.
	late(t *term, task *task)
	// contributesTo visits what the task's output goes into.
	contributesTo(visit func(dependency))
}

// input is what a task reads.
type input struct {
	// there says that it is thought to be available.
	there bool
	// lose has it looked for again, or made again.
	lose func()
}

// attempt is an attempt that was sent and has not been reported.
type attempt struct {
	task   *task
	number int
	id     string
	class  tasks.Class
	run    *run // the one it is charged to
	sent   time.Time
	acked  bool // the queue has it
	// worker is who runs it, as far as heartbeats have told, and memory what it had
	// by the last of them.
	worker   string
	memory   queue.Memory
	running  float64 // seconds, by the last heartbeat
	progress queue.Progress
	checked  time.Time // when storage was last asked for its outcome
	checking bool      // storage is being asked
	misses   int       // how often in a row the queue did not know it
	stopping bool      // nobody needs it any more
	span     tracing.Span
}

func attemptID(key storage.Key, number int) string {
	a := attempts.Attempt{Spec: tasks.Spec{Key: key}, Number: number}
	return a.ID()
}

// inheritTroubles makes a task remember what the runs' logs say of it.
func (x *task) inheritTroubles(wants []*run) {
	for _, r := range wants {
		trouble, ok := r.state.Troubles[x.key]
		if !ok {
			continue
		}
		x.tries = max(x.tries, trouble.Tries)
		if len(trouble.Deaths) > len(x.deaths) {
			x.deaths = slices.Clone(trouble.Deaths)
		}
	}
}

// inheritTroubles does so for all standing nodes of a run.
func (t *term) inheritTroubles(r *run) {
	for key := range r.state.Troubles {
		if n := t.nodes[key]; n != nil {
			n.inheritTroubles([]*run{r})
		}
	}
}

// launch begins an attempt at the task, charged to a run; sendOff sends it.
func (t *term) launch(x *task, r *run) {
	t.beginSharing(x.training())
	x.number = max(x.number+1, t.foreign[x.key])
	a := &attempt{task: x, number: x.number, class: t.classOf(x), run: r, sent: t.now()}
	a.id = attemptID(x.key, a.number)
	a.checked = a.sent
	t.move(x, send)
	x.urgent = false
	x.attempts = append(x.attempts, a)
	t.attempts[a.id] = a
	t.inFlight[a.class]++
	r.inFlight++
	t.served++
	r.lastServed = t.served
	a.span = t.attemptSpan(a)
	attempt := attempts.Attempt{
		Spec: x.spec, Number: a.number, Runs: runIDs(x.wants), Trace: a.span.Envelope(),
		TimeoutSeconds: t.TaskTimeout.Seconds(), Leader: t.leader,
	}
	m := queue.Message{ID: a.id, Class: string(a.class), Payload: attempt.Encode()}
	t.launching = append(t.launching, outgoing{a, m, a.span.Child("enqueue")})
}

// outgoing is an attempt that has yet to be sent.
type outgoing struct {
	attempt *attempt
	message queue.Message
	span    tracing.Span // of the sending
}

// sendBatch is how many attempts are sent at once.
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
					l.span.End(err)
					t.launched(l.attempt, err)
				}
			}
		})
	}
	t.launching = nil
}

func (t *term) launched(a *attempt, err error) {
	if err != nil {
		t.queueFails(err)
		if t.attempts[a.id] == a {
			t.land(a)
			if a.task.number == a.number {
				a.task.number-- // the same attempt again: if it did arrive, the two are one
			}
			t.relaunch(a.task)
		}
		return
	}
	t.queueWorks()
	a.acked = true
	if a.stopping {
		t.stop(a) // the first request may have overtaken the message
	}
}

// land takes an attempt out of the books.
func (t *term) land(a *attempt) {
	a.span.End(nil)
	delete(t.attempts, a.id)
	t.inFlight[a.class]--
	a.run.inFlight--
	a.task.attempts = slices.DeleteFunc(a.task.attempts, func(b *attempt) bool { return b == a })
	if a.task.state == inFlight && len(a.task.attempts) == 0 {
		t.move(a.task, land)
	}
	t.changed = true
}

// relaunch has a task that is still wanted try again, ahead of the backlog.
func (t *term) relaunch(x *task) {
	if x.state == idle {
		x.urgent = true
		x.owner.requeue(t, x)
	}
}

// logOf is the log for lines about a task.
func (t *term) logOf(x *task) *slog.Logger {
	log := t.log
	if len(x.wants) > 0 {
		log = log.With("run", strings.Join(runIDs(x.wants), ","))
	}
	return log.With("node", x.key.Short(), "label", x.label, "kind", x.spec.Kind)
}

func runIDs(wants []*run) []string {
	var ids []string
	for _, r := range wants {
		ids = append(ids, r.id)
	}
	return ids
}

// report takes a worker's word on an attempt.
func (t *term) report(r queue.Report) {
	if r.IsNudge() {
		t.nudged()
		return
	}
	var o attempts.Outcome
	if err := json.Unmarshal(r.Body, &o); err != nil || attemptID(o.Key, o.Number) != r.ID {
		t.log.Warn("a report makes no sense; the attempt will be looked for in storage", "message", r.ID, "worker", r.Worker, "error", err)
		return
	}
	a := t.attempts[r.ID]
	if a == nil {
		t.stray(o)
		return
	}
	if a.worker == "" {
		a.worker = r.Worker
	}
	a.traceOutcome(o)
	t.land(a)
	t.countAttempt(a.task, string(o.Result))
	if o.Divergent != "" {
		t.diverged(a.task, o)
	}
	if a.task.state == finished {
		if o.Result == attempts.Done {
			a.task.owner.late(t, a.task)
		}
		return
	}
	t.outcome(a, o)
}

func (t *term) outcome(a *attempt, o attempts.Outcome) {
	x := a.task
	switch o.Result {
	case attempts.Done:
		t.measure(a, o)
		t.succeed(x, o.Objects)
	case attempts.Refused:
		t.logTrouble(x, runs.Entry{Kind: runs.AttemptFailed, Error: o.Error, Worker: o.Worker})
		t.fail(x, o.Error)
	case attempts.Missing:
		t.inputMissing(x, o)
	case attempts.Returned:
		t.handedBack(a)
	case attempts.StoreAway:
		t.storeFailed(a, o)
	default:
		t.tryAgain(x, o)
	}
	if o.Result != attempts.StoreAway {
		x.store = ""
	}
}

// storeFailed sends a task back for the store's sake. That may go on for hours,
// so it is logged once.
func (t *term) storeFailed(a *attempt, o attempts.Outcome) {
	x := a.task
	reason := status.WaitStore
	if o.StoreFull {
		reason = status.WaitSpace
	}
	if x.store != reason {
		t.logOf(x).Warn("the store failed an attempt; it waits for the store", "attempt", o.Number, "worker", o.Worker, "error", o.Error)
	}
	x.store, x.lastErr = reason, o.Error
	t.handedBack(a)
}

// succeed ends a task whose output is there, with these objects if they are known.
func (t *term) succeed(x *task, objects []storage.Blob) {
	if x.state == finished {
		return
	}
	x.tries, x.deaths = 0, nil
	for _, r := range x.wants {
		r.progressed = t.now()
	}
	for _, in := range x.spec.Inputs {
		delete(t.losses, in.Key)
	}
	t.drop(x)
	x.owner.committed(t, x, objects)
}

// drop ends a task and calls back its attempts.
func (t *term) drop(x *task) {
	t.finishTask(x)
	x.traceEnd(nil)
	for _, a := range x.attempts {
		t.callBack(a)
	}
}

// callBack tells whoever has an attempt that it is no longer needed.
func (t *term) callBack(a *attempt) {
	if !a.stopping {
		a.stopping = true
		t.stop(a)
	}
}

func (t *term) stop(a *attempt) {
	t.start(sending, func(ctx context.Context) func() {
		withdrawn, err := t.Queue.Withdraw(ctx, a.id)
		if err == nil && !withdrawn {
			err = t.Queue.Stop(ctx, a.id)
		}
		return func() {
			if err != nil {
				t.queueFails(err)
			}
			if withdrawn && a.acked && t.attempts[a.id] == a {
				t.land(a)
				t.relaunch(a.task)
			}
		}
	})
}

// withdrawUnwanted calls back the attempts at tasks that have no wants left.
func (t *term) withdrawUnwanted() {
	for _, a := range t.attemptsInOrder() {
		if len(a.task.wants) == 0 && a.task.state != finished {
			t.callBack(a)
		}
	}
}

// backoff is the pause before the next try after n have failed.
func backoff(n int) time.Duration {
	return min(time.Second<<min(n-1, 10), time.Minute)
}

// tryAgain counts an error that another attempt may mend.
func (t *term) tryAgain(x *task, o attempts.Outcome) {
	x.tries++
	x.lastErr = o.Error
	t.logTrouble(x, runs.Entry{Kind: runs.AttemptFailed, Error: o.Error, Worker: o.Worker})
	if x.tries >= t.MaxTries {
		t.fail(x, fmt.Sprintf("failed %d times, the last time on worker %s: %s", x.tries, o.Worker, o.Error))
		return
	}
	if x.state != idle {
		return // a second attempt is still under way
	}
	wait := backoff(x.tries)
	t.move(x, pause)
	x.waiting = t.now().Add(wait)
	t.logOf(x).Warn("attempt failed; trying again", "attempt", o.Number, "worker", o.Worker, "tries", x.tries, "pause", wait, "error", o.Error)
	// A torn record may be what made it fail; it must not stand in the way again.
	t.persist(reading, "removing a torn commit", func() bool { return x.state == pausing }, func(ctx context.Context) (func(), error) {
		_, err := t.lookUpClean(ctx, x.key)
		return nil, err
	})
	t.resumeAfter(x, wait)
}

// resumeAfter makes a pausing task ready once the pause is over.
func (t *term) resumeAfter(x *task, pause time.Duration) {
	t.after(pause, func() {
		if x.state == pausing {
			t.move(x, resume)
			x.owner.requeue(t, x)
		}
	})
}

// handedBack deals with an attempt that was returned untried: because we asked
// for it, because its worker shuts down or is too old for it, or because the
// store was away. However often that happens, it is no reason to give up.
func (t *term) handedBack(a *attempt) {
	x := a.task
	if x.state != idle {
		return
	}
	if a.stopping {
		t.relaunch(x) // wanted again meanwhile
		return
	}
	x.returned++
	x.urgent = true
	t.move(x, pause)
	t.resumeAfter(x, spread(x.key, min(50*time.Millisecond<<min(x.returned, 7), 5*time.Second)))
}

// spread lengthens a pause by up to a half, so that tasks that were returned
// together do not all come again together. It depends on the key alone: a term
// can be repeated step by step.
func spread(key storage.Key, pause time.Duration) time.Duration {
	return pause + pause*time.Duration(key.Digest[0])/512
}

// maxMissing is how often the same input may be missing for the same task
// before that counts as a failure: something deletes what we make.
const maxMissing = 6

// purgeAfter is how often it may be missing before storage is not believed when
// it says that the input is there: its bytes must be damaged.
const purgeAfter = 2

// inputMissing plans an input again that a worker could not read.
func (t *term) inputMissing(x *task, o attempts.Outcome) {
	if o.MissingNode == nil {
		o.Error = "an input is missing, but the worker did not say which: " + o.Error
		t.tryAgain(x, o)
		return
	}
	key := *o.MissingNode
	in, ok := x.owner.input(t, x, key)
	switch {
	case !ok:
		o.Error = fmt.Sprintf("node %s is missing, which is no input of %s: %s", key.Short(), x.label, o.Error)
		t.tryAgain(x, o)
	case t.purging[key]: // it goes on when the input has been planned again
	case !in.there:
		x.owner.requeue(t, x)
	default:
		t.inputLost(x, in, o)
	}
}

// inputLost plans an input again that was thought to be there. It counts how
// often that happens until a task could read it.
func (t *term) inputLost(x *task, in input, o attempts.Outcome) {
	key := *o.MissingNode
	t.losses[key]++
	count := t.losses[key]
	if count > maxMissing {
		delete(t.losses, key)
		t.fail(x, fmt.Sprintf("its input %s was made again %d times and is missing still: %s", key.Short(), count-1, o.Error))
		return
	}
	t.logOf(x).Info("an input is missing; it is planned again", "attempt", o.Number, "input", key.Short(), "times", count)
	if count < purgeAfter {
		in.lose()
		x.owner.requeue(t, x)
		return
	}
	t.purging[key] = true
	t.persist(deleting, "removing damaged blobs", func() bool { return true }, func(ctx context.Context) (func(), error) {
		err := t.purge(ctx, key)
		return func() {
			delete(t.purging, key)
			in.lose()
			x.owner.requeue(t, x)
		}, err
	})
}

// purge deletes the blobs of a node, so that it is run again.
func (t *term) purge(ctx context.Context, key storage.Key) error {
	f, err := t.lookUpClean(ctx, key)
	if err != nil || f.Commit == nil {
		return err
	}
	if err := t.token.Check(ctx); err != nil {
		return err
	}
	return t.archive.DeleteBlobs(ctx, f.Commit)
}

// fail gives a task up for all runs that want it, and with it their cells that
// need it. Another run that wants it later tries it afresh.
func (t *term) fail(x *task, evidence string) {
	if len(x.wants) == 0 {
		t.logOf(x).Info("node failed that no run wants any more", "attempt", x.number, "error", evidence)
	} else {
		t.logOf(x).Error("node failed", "attempt", x.number, "error", evidence)
		t.metrics.failures.WithLabelValues(x.spec.Kind).Inc()
	}
	x.traceEnd(errors.New(evidence))
	key := x.key
	for _, r := range slices.Clone(x.wants) {
		entry := runs.Entry{Kind: runs.NodeFailed, Key: &key, Label: x.label, Error: evidence, Attempts: max(x.tries, 1)}
		for _, c := range t.cellsOf(x, r) {
			if !c.failed {
				entry.Cells = append(entry.Cells, c.plan.Name)
			}
		}
		t.record(r, entry)
	}
	x.tries, x.deaths, x.returned = 0, nil, 0
	if x.state == ready || x.state == pausing {
		t.move(x, giveUp)
	}
	t.dirty = true
}

// logTrouble notes for all runs that want a task what has befallen it.
func (t *term) logTrouble(x *task, e runs.Entry) {
	key := x.key
	e.Key, e.Label, e.Attempts = &key, x.label, cmp.Or(e.Attempts, x.number)
	for _, r := range x.wants {
		t.record(r, e)
	}
}

func (t *term) diverged(x *task, o attempts.Outcome) {
	t.logOf(x).Error("two attempts at one node differ: its kind is not deterministic",
		"attempt", o.Number, "worker", o.Worker, "difference", o.Divergent)
	t.metrics.divergent.WithLabelValues(x.spec.Kind).Inc()
	t.logTrouble(x, runs.Entry{Kind: runs.Diverged, Error: o.Divergent, Worker: o.Worker})
}

// stray deals with a report on an attempt that this term does not have in its
// books: from the term before, or given up for lost. It is a hint to look.
func (t *term) stray(o attempts.Outcome) {
	if o.Result != attempts.Done {
		return
	}
	for _, a := range t.attemptsInOrder() {
		if a.task.key == o.Key {
			t.recheck(a)
			return
		}
	}
	for _, ch := range t.chainsInOrder() {
		t.retireLate(ch, o.Key)
	}
}

// evidenceOfDeaths says how a task has killed its workers: one that came near its
// limit of memory, or near what the machine has, was killed for that.
func (x *task) evidenceOfDeaths() string {
	var deaths []string
	for _, d := range x.deaths {
		deaths = append(deaths, d.String())
	}
	return fmt.Sprintf("killed its worker %d times: %s (memory by the last heartbeat)", len(x.deaths), strings.Join(deaths, ", "))
}
