package coordinator

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/availability"
	"coalmine/workflows/runs"
)

const (
	// workersEvery is how often the heartbeats are read. They live for three
	// seconds, so a lost worker is noticed within four.
	workersEvery = 500 * time.Millisecond
	// recheckEvery is how often an attempt in flight is looked for in storage.
	recheckEvery = 5 * time.Second
	// knownEvery is how often the queue is asked whether it still has what was
	// sent; what it has not known knownMisses times in a row is sent again.
	knownEvery  = 2 * time.Second
	knownMisses = 2
	// maxDeaths is how many workers a task may take with it.
	maxDeaths = 3
	// stragglersEvery is how often stragglers are looked for.
	stragglersEvery = time.Second
)

func (t *term) attemptsInOrder() []*attempt {
	return slices.SortedFunc(maps.Values(t.attempts), func(a, b *attempt) int { return cmp.Compare(a.id, b.id) })
}

// pollWorkers reads who is alive.
func (t *term) pollWorkers() {
	t.start(sending, func(ctx context.Context) func() {
		workers, err := t.Queue.Workers(ctx)
		return func() {
			if err != nil {
				t.queueFails(err)
				return
			}
			t.queueWorks()
			t.heard(workers)
		}
	})
}

// heard takes in the heartbeats.
func (t *term) heard(workers []queue.Worker) {
	before := t.workers
	t.workers = workers
	clear(t.foreign)
	kinds, keys, slots := make(map[string]bool), make(map[string]bool), make(map[tasks.Class]int)
	for _, w := range workers {
		if !w.Draining {
			for _, class := range w.Classes {
				slots[tasks.Class(class)] += w.Slots
			}
			for _, k := range w.Kinds {
				kinds[k] = true
			}
			for _, key := range w.Keys {
				keys[key] = true
			}
		}
		for _, r := range w.Running {
			t.heardOf(w, r)
		}
	}
	if !maps.Equal(slots, t.slots) || !maps.Equal(kinds, t.kinds) || !maps.Equal(keys, t.keys) {
		t.slots, t.kinds, t.keys, t.changed = slots, kinds, keys, true
		t.unpark()
	}
	for _, w := range lacking(before, workers) {
		t.workerGone(w)
	}
	for _, w := range lacking(workers, before) {
		t.workerCame(w)
	}
}

// lacking are the workers of the first list that the second does not have.
func lacking(has, lacks []queue.Worker) []queue.Worker {
	var found []queue.Worker
	for _, w := range has {
		if !slices.ContainsFunc(lacks, func(x queue.Worker) bool { return x.ID == w.ID }) {
			found = append(found, w)
		}
	}
	return found
}

// heardOf takes in that a worker runs an attempt.
func (t *term) heardOf(w queue.Worker, r queue.Running) {
	if a := t.attempts[r.ID]; a != nil {
		a.worker, a.memory, a.running, a.progress, a.misses = w.ID, w.Memory, r.Seconds, r.Progress, 0
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

// workerGone looks after what a worker had that no longer shows a heartbeat.
func (t *term) workerGone(w queue.Worker) {
	t.vanished = newVanished(t.now(), w)
	t.changed = true
	t.log.Info("worker is gone", "worker", w.ID, "host", w.Host)
	for _, a := range t.attemptsInOrder() {
		if a.worker == w.ID {
			t.vanished.room[string(a.class)]--
			t.checkThen(a, func() { t.lost(a, &w) })
		}
	}
}

// workerCame takes back what a worker was held for dead for: it was cut off or
// frozen, or Redis had forgotten it, and no task has killed it.
func (t *term) workerCame(w queue.Worker) {
	if t.vanished.worker.ID == w.ID {
		t.vanished = vanished{}
	}
	for _, r := range t.order {
		if r.active() && r.state.CountsDead(w.ID) {
			t.log.Info("worker is back", "worker", w.ID, "host", w.Host, "run", r.id)
			t.record(r, runs.Entry{Kind: runs.WorkerBack, Worker: w.ID})
		}
	}
	for x := range t.tasks() {
		x.deaths = slices.DeleteFunc(x.deaths, func(d runs.Death) bool { return d.Worker == w.ID })
	}
}

// tasks yields all tasks that exist: the standing ones, and those of each
// chain's current step.
func (t *term) tasks() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		for _, n := range t.nodes {
			if !yield(n.task) {
				return
			}
		}
		for _, ch := range t.chains {
			if ch.current == nil {
				continue
			}
			for _, x := range ch.current.tasks() {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// recheckFlights looks in storage for attempts whose report may have been lost.
func (t *term) recheckAttempts() {
	now := t.now()
	for _, a := range t.attemptsInOrder() {
		if a.acked && !a.checking && now.Sub(a.checked) >= recheckEvery {
			t.recheck(a)
		}
	}
}

func (t *term) recheck(a *attempt) { t.checkThen(a, func() {}) }

// checkThen looks in storage whether the attempt's task is done; otherwise, if
// the attempt has not been reported meanwhile, it calls orElse.
func (t *term) checkThen(a *attempt, orElse func()) {
	a.checked, a.checking = t.now(), true
	unreported := func() bool { return t.attempts[a.id] == a }
	t.persist(reading, "looking for an attempt's outcome", unreported, func(ctx context.Context) (func(), error) {
		found, err := availability.LookUp(ctx, t.archive, a.task.key)
		return func() {
			a.checking = false
			switch {
			case !unreported():
			case found.Available() && a.task.state == inFlight:
				t.logOf(a.task).Info("found an outcome that was not reported", "attempt", a.number)
				t.succeed(a.task, found.Commit.Objects())
				orElse()
			default:
				orElse()
			}
		}, err
	})
}

// askForFlights asks the queue whether it still has what was sent.
func (t *term) askForAttempts() {
	if t.asking {
		return
	}
	var ids []string
	for _, a := range t.attemptsInOrder() {
		if a.acked && t.now().Sub(a.sent) >= knownEvery {
			ids = append(ids, a.id)
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
			t.queueWorks()
			for _, id := range ids {
				t.heardKnown(id, known[id])
			}
		}
	})
}

func (t *term) heardKnown(id string, known bool) {
	a := t.attempts[id]
	if a == nil {
		return
	}
	if known {
		a.misses = 0
		return
	}
	if a.misses++; a.misses >= knownMisses {
		t.checkThen(a, func() { t.lost(a, t.suspect(a)) })
	}
}

// vanished is the worker that vanished last. A task that kills its worker at once
// is never seen in a heartbeat, so the worker may have had more attempts than it
// said: as many of each class as it had room for.
type vanished struct {
	at     time.Time
	worker queue.Worker
	room   map[string]int // by class
}

func newVanished(at time.Time, w queue.Worker) vanished {
	v := vanished{at: at, worker: w, room: make(map[string]int, len(w.Classes))}
	for _, class := range w.Classes {
		v.room[class] = w.Slots
	}
	return v
}

// suspect is the worker that the attempt may have killed, nil if it was more
// likely the queue that forgot it.
func (t *term) suspect(a *attempt) *queue.Worker {
	if a.worker != "" {
		return &queue.Worker{ID: a.worker, Memory: a.memory}
	}
	v, class := &t.vanished, string(a.class)
	if !v.at.After(a.sent) || v.room[class] <= 0 {
		return nil
	}
	v.room[class]--
	return &v.worker
}

// lost gives up an attempt that nobody works on any more. killed is the worker
// that died with it, if one did.
func (t *term) lost(a *attempt, killed *queue.Worker) {
	x := a.task
	a.span.Fail("lost: its worker died, or the queue forgot it")
	t.land(a)
	t.countAttempt(x, lost)
	if x.state == finished {
		return
	}
	t.logOf(x).Warn("attempt is lost", "attempt", a.number, "worker", a.worker)
	if killed != nil && !a.stopping {
		m := killed.Memory
		x.deaths = append(x.deaths, runs.Death{Worker: killed.ID, Attempt: a.number, MemoryBytes: m.Used, MemoryLimitBytes: m.Limit})
		t.logTrouble(x, runs.Entry{Kind: runs.WorkerDied, Attempts: a.number, Worker: killed.ID, MemoryBytes: m.Used, MemoryLimitBytes: m.Limit})
		if len(x.deaths) >= maxDeaths {
			t.fail(x, x.evidenceOfDeaths())
			return
		}
		t.metrics.takeovers.Inc()
	}
	t.relaunch(x)
}

// Stragglers are attempts that take stragglerFactor times as long as the median
// of their siblings, and at least stragglerFloor.
const (
	stragglerFactor  = 3
	stragglerFloor   = 10 * time.Second
	stragglerSamples = 3
)

// helpStragglers gives stragglers a second attempt while there are slots that
// nobody needs; whichever commits first wins.
func (t *term) helpStragglers() {
	if !t.queueDown.since.IsZero() {
		return
	}
	for _, a := range t.attemptsInOrder() {
		idleSlots := t.slots[a.class] - t.inFlight[a.class]
		if idleSlots > 0 && len(a.task.wants) > 0 && t.straggles(a) {
			t.logOf(a.task).Info("second attempt at a straggler", "attempt", a.number, "worker", a.worker, "seconds", a.running)
			t.launch(a.task, a.run)
		}
	}
}

func (t *term) straggles(a *attempt) bool {
	x := a.task
	if a.stopping || x.state != inFlight || len(x.attempts) != 1 || a.worker == "" {
		return false
	}
	median, n := t.samplesOf(x).median()
	return n >= stragglerSamples && a.running > max(stragglerFactor*median, stragglerFloor.Seconds())
}

// samplesOf are the durations of the task's siblings.
func (t *term) samplesOf(x *task) *samples {
	durations := t.durations
	if s, ok := x.owner.(*step); ok {
		durations = s.chain.durations
	}
	if durations[x.spec.Kind] == nil {
		durations[x.spec.Kind] = &samples{}
	}
	return durations[x.spec.Kind]
}

// measure takes in how long an attempt took.
func (t *term) measure(a *attempt, o attempts.Outcome) {
	t.samplesOf(a.task).add(o.Seconds)
	a.task.useTime(o.Seconds)
	a.run.tokens.add(t.now(), o.Tokens)
}
