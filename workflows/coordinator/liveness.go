package coordinator

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// pollWorkers reads the live workers.
func (t *term) pollWorkers() {
	t.send(func(ctx context.Context) (func(), error) {
		workers, err := t.Queue.Workers(ctx)
		return func() {
			if !t.heartbeatsMissing() {
				t.applyHeartbeats(workers)
			}
		}, err
	})
}

// applyHeartbeats updates the fleet, and handles workers that are gone or came back.
func (t *term) applyHeartbeats(workers []queue.Worker) {
	before := t.dispatcher.Fleet.Workers
	clear(t.foreign)
	for _, w := range workers {
		for _, r := range w.Running {
			t.noteRunning(w, r)
		}
	}
	if t.dispatcher.SetWorkers(workers) {
		t.changed = true
	}
	for _, w := range missingIn(workers, before) {
		t.workerGone(w)
	}
	for _, w := range missingIn(before, workers) {
		t.workerCame(w)
	}
}

// missingIn returns the workers of all that are not in list.
func missingIn(list, all []queue.Worker) []queue.Worker {
	return slices.DeleteFunc(slices.Clone(all), func(w queue.Worker) bool {
		return slices.ContainsFunc(list, func(x queue.Worker) bool { return x.ID == w.ID })
	})
}

// noteRunning records that a worker runs an attempt.
func (t *term) noteRunning(w queue.Worker, r queue.Running) {
	if a := t.graph.Attempt(r.ID); a != nil {
		a.Worker, a.Memory, a.Running, a.Progress, a.Misses = w.ID, w.Memory, r.Seconds, r.Progress, 0
		return
	}
	if key, number, ok := parseAttemptID(r.ID); ok {
		t.foreign[key] = max(t.foreign[key], number)
	}
}

func parseAttemptID(id string) (storage.Key, int, bool) {
	text, rest, _ := strings.Cut(id, ".")
	key, err := storage.ParseKey(text)
	number, err2 := strconv.Atoi(rest)
	return key, number, err == nil && err2 == nil
}

// workerGone handles the attempts of a worker without a heartbeat.
func (t *term) workerGone(w queue.Worker) {
	t.vanished = newVanished(t.now(), w)
	t.changed = true
	t.log.Info("worker is gone", "worker", w.ID, "host", w.Host)
	for _, a := range t.graph.AttemptsInOrder() {
		if a.Worker == w.ID {
			t.vanished.room[string(a.Class)]--
			t.checkThen(a, func() { t.lost(a, &w) })
		}
	}
}

// workerCame withdraws the presumed death of a worker: it was cut off or
// frozen, or Redis had lost its heartbeat.
func (t *term) workerCame(w queue.Worker) {
	if t.vanished.worker.ID == w.ID {
		t.vanished = vanished{}
	}
	for _, r := range t.graph.Runs() {
		if r.Active() && r.State.CountsDead(w.ID) {
			t.log.Info("worker is back", "worker", w.ID, "host", w.Host, "run", r.ID)
			t.records.append(r, runs.Entry{Kind: runs.WorkerBack, Worker: w.ID})
		}
	}
	for x := range t.graph.Tasks() {
		if len(x.Trouble().Deaths) > 0 {
			trouble := x.AddTrouble()
			trouble.Deaths = slices.DeleteFunc(trouble.Deaths, func(d runs.Death) bool { return d.Worker == w.ID })
		}
	}
}

// recheckAttempts looks up attempts in storage, because their reports may be lost.
func (t *term) recheckAttempts() {
	now := t.now()
	for _, a := range t.graph.AttemptsInOrder() {
		if a.Acked && !a.Checking && now.Sub(a.Checked) >= policy.RecheckEvery {
			t.recheck(a)
		}
	}
}

func (t *term) recheck(a *graph.Attempt) { t.checkThen(a, func() {}) }

// checkThen checks in storage whether the attempt's task is done. Then, if the
// attempt has not been reported meanwhile, it calls next.
func (t *term) checkThen(a *graph.Attempt, next func()) {
	a.Checked, a.Checking = t.now(), true
	unreported := func() bool { return t.graph.Attempt(a.ID) == a }
	t.persist(reading, "looking for an attempt's outcome", unreported, func(ctx context.Context) (func(), error) {
		found, err := plan.LookUp(ctx, t.store.archive, a.Task.Key)
		return func() {
			a.Checking = false
			if !unreported() {
				return
			}
			if found.Available() && a.Task.State() == graph.InFlight {
				t.logOf(a.Task).Info("found the commit of an unreported attempt", "attempt", a.Number)
				t.succeed(a.Task, found.Commit.Objects())
			}
			next()
		}, err
	})
}

// askForAttempts asks the queue whether it still has the sent attempts.
func (t *term) askForAttempts() {
	if t.asking || t.heartbeatsMissing() {
		return
	}
	var ids []string
	for _, a := range t.graph.AttemptsInOrder() {
		if a.Acked && t.now().Sub(a.Sent) >= policy.KnownEvery {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	t.asking = true
	t.start(sending, func(ctx context.Context) func() {
		known, err := t.Queue.Known(ctx, ids)
		return func() {
			t.asking = false
			if err != nil {
				t.queueFails(err)
				return
			}
			t.queueAnswers()
			if t.heartbeatsMissing() {
				return
			}
			for _, id := range ids {
				t.noteKnown(id, known[id])
			}
		}
	})
}

func (t *term) noteKnown(id string, known bool) {
	a := t.graph.Attempt(id)
	if a == nil {
		return
	}
	if known {
		a.Misses = 0
		return
	}
	if a.Misses++; a.Misses >= policy.KnownMisses {
		t.checkThen(a, func() { t.lost(a, t.suspect(a)) })
	}
}

// vanished is the worker that vanished last. A task that kills its worker at once never appears in a heartbeat, so
// the worker may have had more attempts than it reported: in each class, up to the number of its slots.
type vanished struct {
	at     time.Time
	worker queue.Worker
	room   map[string]int // by class
}

func newVanished(at time.Time, w queue.Worker) vanished {
	v := vanished{at: at, worker: w, room: make(map[string]int, len(w.Classes))}
	for _, class := range w.Classes {
		v.room[class] = w.SlotsOf(class)
	}
	return v
}

// suspect returns the worker that the attempt may have killed, or nil if the queue more likely lost the attempt.
func (t *term) suspect(a *graph.Attempt) *queue.Worker {
	if a.Worker != "" {
		return &queue.Worker{ID: a.Worker, Memory: a.Memory}
	}
	v, class := &t.vanished, string(a.Class)
	if !v.at.After(a.Sent) || v.room[class] <= 0 {
		return nil
	}
	v.room[class]--
	return &v.worker
}

// lost gives up an attempt that no worker runs. killed is the worker that died with it, or nil.
func (t *term) lost(a *graph.Attempt, killed *queue.Worker) {
	x := a.Task
	a.Span.Fail("lost: its worker died, or the queue forgot it")
	t.land(a)
	t.counters.CountAttempt(x.Kind(), observe.Lost)
	if x.State() == graph.Finished {
		return
	}
	t.logOf(x).Warn("attempt is lost", "attempt", a.Number, "worker", a.Worker)
	if killed != nil && !a.Stopping {
		used, limit := killed.Memory.Tightest()
		if t.died(x, runs.Death{Worker: killed.ID, Attempt: a.Number, MemoryBytes: used, MemoryLimitBytes: limit}, a.Running) {
			return
		}
		t.relaunchAfterDeath(x)
		return
	}
	t.relaunch(x)
}

// relaunchAfterDeath schedules another attempt at a task after deaths of its workers.
func (t *term) relaunchAfterDeath(x *graph.Task) {
	pause := policy.DeathPause(len(x.Trouble().Deaths))
	if pause == 0 {
		t.relaunch(x)
		return
	}
	x.Urgent = true
	t.pause(x, pause)
}

// helpStragglers gives stragglers a second attempt while slots are free; the first commit wins. If second attempts
// fail, the next follows after a pause. None starts if one more failure or death would give the task up: a broken or
// small worker that is always free must not end a task that another worker is about to finish.
func (t *term) helpStragglers() {
	if t.queueAway.On() {
		return
	}
	for _, a := range t.graph.AttemptsInOrder() {
		x := a.Task
		idleSlots := t.dispatcher.Fleet.Slots[a.Class] - t.graph.InFlight(a.Class)
		if idleSlots <= 0 || len(x.Wants) == 0 || a.Stopping || x.State() != graph.InFlight || len(t.graph.AttemptsAt(x)) != 1 {
			continue
		}
		if trouble := x.Trouble(); trouble.Tries+1 >= t.MaxTries || policy.DeathsLeft(trouble.Deaths) <= 1 || t.now().Before(trouble.Until) {
			continue
		}
		if _, straggles := t.graph.Straggles(a); straggles {
			t.logOf(x).Info("starting a second attempt at a straggler", "attempt", a.Number, "worker", a.Worker, "seconds", a.Running)
			t.launch(x, a.Run)
		}
	}
}
