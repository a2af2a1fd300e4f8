package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// world is a whole cluster in one goroutine: a coordinator's term, a queue that
// forgets, duplicates, delays and reorders, workers that die, a store. A seed
// decides what happens next, so a run of it repeats exactly.
type world struct {
	t      testing.TB
	seed   uint64
	rand   *rand.Rand
	chaos  chaos
	clock  time.Time
	memory *storagetest.Memory
	store  *watchedStore
	// archive is the coordinator's and the workers' view of the store.
	archive *storage.Archive
	service *runs.Service
	plans   map[string]*plan.Plan // by the name of the experiment

	term     *term
	jobs     []job
	applying []func()
	// override, if set, decides how an attempt ends instead of the kind; kills
	// says that it takes its worker with it; faults are the odds, in thousandths,
	// that storage fails a job of the coordinator.
	override func(attempts.Attempt) *attempts.Outcome
	kills    func(attempts.Attempt) bool
	faults   int
	ran      map[string]int      // executions by kind
	tried    map[storage.Key]int // executions by node
	kinds    []string            // the workers' advertised kinds
	keys     []string            // secret keys that workers hold
	resident queue.Memory        // the workers' kinds
	classes  []string            // that workers take
	slow     func(*execution) float64
	seconds  func(attempts.Attempt) float64

	pending []queue.Message
	// silence is until when no worker shows a heartbeat after a flush.
	silence  time.Time
	reports  []queue.Report
	workers  []*simWorker
	born     int
	away     bool            // the queue does not answer
	refuses  error           // the queue can be read, and says this of writes; heartbeats expire
	targets  map[string]bool // keys that the cells want
	restarts int
	deaths   int
	flushes  int
	lost     int
	trace    []string
}

// chaos are odds, in thousandths of a step.
type chaos struct {
	flush, killWorker, restart, loseReport, doubleReport, queueAway, losePending, loseBlob int
}

type simWorker struct {
	id      string
	slots   int
	running []*execution
	silent  time.Time // when it died; its heartbeat outlives it
	// build is the build in its heartbeats, and kinds its kinds, if other than the world's; reads,
	// if set, answers an attempt that it cannot read; reports writes its reports.
	build   string
	kinds   []string
	reads   func(attempts.Attempt) *attempts.Outcome
	reports func(attempts.Outcome) []byte
}

func (w *simWorker) dead() bool { return !w.silent.IsZero() }

// execution is an attempt at a worker, between two of its steps.
type execution struct {
	attempt attempts.Attempt
	id      string
	stopped bool
	next    func() // its next action, nil when it has reported
}

// watchedStore remembers every commit that was ever made.
type watchedStore struct {
	*storagetest.FaultyStore
	mu      sync.Mutex
	before  func() // the actions of others just before an object is created
	commits map[string]plantest.Outputs
	rounds  map[string]int
	wrong   []string
}

func (s *watchedStore) Create(ctx context.Context, name string, data []byte) error {
	if s.before != nil {
		s.before()
	}
	err := s.FaultyStore.Create(ctx, name, data)
	if err == nil && strings.HasPrefix(name, "commits/") {
		var sealed struct{ Record storage.Commit }
		if err := json.Unmarshal(data, &sealed); err != nil {
			panic(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		out := plantest.OutputsOf(&sealed.Record)
		if before := s.commits[name]; before != nil && !maps.Equal(before, out) {
			s.wrong = append(s.wrong, "two different commits: "+name)
		}
		s.commits[name] = out
		s.rounds[name]++
	}
	return err
}

func newWorld(t testing.TB, seed uint64, c chaos, plans map[string]*plan.Plan) *world {
	w := &world{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), chaos: c, plans: plans,
		clock: time.Unix(1_700_000_000, 0), ran: make(map[string]int), tried: make(map[storage.Key]int), kinds: plantest.Kinds.Advertised(), classes: []string{string(tasks.Compute)}, seconds: simSeconds, resident: simMemory,
	}
	w.targets = make(map[string]bool)
	for _, p := range plans {
		for _, c := range p.Cells {
			w.targets[c.Report.Key.String()], w.targets[c.Model.Key.String()] = true, true
		}
	}
	w.memory = storagetest.NewMemory()
	w.store = &watchedStore{FaultyStore: storagetest.WithFaults(w.memory), commits: make(map[string]plantest.Outputs), rounds: make(map[string]int)}
	w.archive = storage.NewArchive(w.store)
	w.service = runs.NewService(w.archive, w.now)
	w.hire(2)
	w.lead()
	return w
}

// oneTask returns a world whose plan "a" has a report on one task, with this salt.
func oneTask(t testing.TB, seed uint64, salt string) (*world, plan.Ref) {
	b := plantest.NewBuilder()
	task := b.Node(plantest.Standing, plantest.Params{Salt: salt})
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r"}, task), task)
	return newWorld(t, seed, chaos{}, map[string]*plan.Plan{"a": b.Done(t)}), task
}

// oneChain returns a world whose plan "a" is one training.
func oneChain(t testing.TB, seed uint64, o plantest.ChainOptions) *world {
	return newWorld(t, seed, chaos{}, map[string]*plan.Plan{"a": plantest.Federated(t, o)})
}

func (w *world) now() time.Time { return w.clock }

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// lead begins a new term, as a coordinator does that starts on this storage.
func (w *world) lead() {
	token := must.Get((&leadership.Contest{Archive: w.archive}).Begin(context.Background()))(w.t)
	w.jobs, w.applying = nil, nil
	cfg := Config{
		Archive: w.archive, Queue: (*simQueue)(w), Registry: plantest.Kinds, MaxTries: 5,
		Log: slog.New(slog.NewTextHandler(traceWriter{w}, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Compile: func(_ context.Context, r *runs.Run) (plan.Parts, error) {
			return plantest.InParts(w.plans[r.Spec.Name], 1+int(w.seed%3)), nil
		},
	}
	w.term = newTerm(cfg, observe.NewCounters(nil), token, w.now, func(_ lane, j job) { w.jobs = append(w.jobs, j) })
	w.term.begin()
}

// traceWriter keeps the coordinator's log for the report of a failure.
type traceWriter struct{ w *world }

func (x traceWriter) Write(p []byte) (int, error) {
	_, text, _ := strings.Cut(string(p), "level=")
	x.w.note("%s", strings.TrimSpace(text))
	return len(p), nil
}

func (w *world) hire(slots int) {
	w.born++
	w.workers = append(w.workers, &simWorker{id: fmt.Sprintf("w%d", w.born), slots: slots})
}

func (w *world) submit(name string, priority int) string {
	w.t.Helper()
	spec := runs.Spec{Name: name, Digest: storage.DigestOf([]byte(name)), Priority: &priority, Experiment: []byte(name)}
	run, _, err := w.service.Submit(context.Background(), spec, "", false)
	if err != nil {
		w.t.Fatal(err)
	}
	w.term.records.nudged()
	return run.ID
}

func (w *world) steer(id string, e runs.Entry) {
	w.t.Helper()
	must.Do(w.t, w.service.Steer(context.Background(), id, e))
	w.term.records.nudged()
}

func (w *world) phase(id string) runs.Phase {
	w.t.Helper()
	run := must.Get(w.service.Get(context.Background(), id))(w.t)
	return run.State.Phase
}

// fail ends the test with the seed and the last things that happened.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// until lets the world go on until done, which is asked now and then.
func (w *world) until(done func() bool) {
	w.t.Helper()
	w.untilAsked(16, done)
}

// untilStep is until, with done asked before every step.
func (w *world) untilStep(done func() bool) {
	w.t.Helper()
	w.untilAsked(1, done)
}

func (w *world) untilAsked(every int, done func() bool) {
	w.t.Helper()
	const most = 1_000_000
	for i := range most {
		if i%every == 0 && done() {
			return
		}
		w.step()
		if w.term.deposed != nil {
			w.fail("deposed: %v", w.term.deposed)
		}
	}
	w.fail("not done after %d steps: %s", most, w.describe())
}

func (w *world) untilPhase(phase runs.Phase, ids ...string) {
	w.t.Helper()
	w.until(func() bool {
		for _, id := range ids {
			r := w.term.records.byID[id]
			if r != nil && r.State.Phase.Finished() && r.State.Phase != phase {
				w.fail("run %s is %s, want %s: %+v", id, r.State.Phase, phase, r.State.Failures)
			}
			if r == nil || r.State.Phase != phase || len(r.outbox) > 0 {
				return false
			}
		}
		return true
	})
}

// settle lets everything that is under way come to its end.
func (w *world) settle() {
	w.t.Helper()
	quiet := w.chaos
	w.chaos, w.away = chaos{}, false
	w.until(func() bool {
		busy := len(w.jobs) + len(w.applying) + len(w.pending) + len(w.reports)
		for _, x := range w.workers {
			busy += len(x.running)
		}
		for _, l := range w.term.deletions.lists {
			busy += len(l.pending)
		}
		return busy == 0
	})
	w.chaos = quiet
}

// completes waits until a run is done and nothing is under way, and checks the outputs of plans.
func (w *world) completes(id string, names ...string) {
	w.t.Helper()
	w.untilPhase(runs.Done, id)
	w.settle()
	w.checkTruth(names...)
}

func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d jobs, %d pending, %d reports, away %v;", len(w.jobs), len(w.pending), len(w.reports), w.away)
	for _, r := range w.term.graph.Runs() {
		fmt.Fprintf(&b, " run %s %s", r.ID, r.State.Phase)
	}
	for _, a := range w.term.graph.AttemptsInOrder() {
		fmt.Fprintf(&b, " attempt %s of %q state %s stopping %v;", a.ID[:6], a.Task.Label(), a.Task.State(), a.Stopping)
	}
	for _, ch := range w.term.graph.Chains() {
		fmt.Fprintf(&b, " chain at %d frontier %d have %v surveyed %v wanted %v current %v;", ch.At, ch.Frontier, ch.Have, ch.Surveyed, ch.Wanted(), ch.Current != nil)
		for _, cp := range ch.Checkpoints {
			fmt.Fprintf(&b, " cp %d available %v", cp.Step, cp.Available)
		}
	}
	for _, n := range w.term.graph.Nodes() {
		fmt.Fprintf(&b, " %q presence %d state %s wants %d;", n.Label(), n.Presence, n.State(), len(n.Wants))
	}
	return b.String()
}

// step does one thing that can happen now, or lets time pass.
func (w *world) step() {
	w.misfortune()
	var can []func()
	if len(w.jobs) > 0 {
		can = append(can, w.runJob, w.runJob)
	}
	if len(w.applying) > 0 {
		can = append(can, w.apply, w.apply)
	}
	if len(w.reports) > 0 && !w.away && w.refuses == nil {
		can = append(can, w.report)
	}
	for _, x := range w.workers {
		if x.dead() {
			continue
		}
		if len(x.running) < x.slots && len(w.pending) > 0 && !w.away && w.refuses == nil {
			can = append(can, func() { w.take(x) })
		}
		for _, e := range x.running {
			can = append(can, func() { w.work(x, e) })
		}
	}
	if len(can) == 0 || w.rand.IntN(200) == 0 {
		w.passTime(len(can) == 0)
		return
	}
	can[w.rand.IntN(len(can))]()
	w.term.settle()
}

// passTime moves the clock: to the next timer if nothing else can happen.
func (w *world) passTime(idle bool) {
	d := time.Duration(w.rand.IntN(200)) * time.Millisecond
	if next, ok := w.term.nextTimer(); ok && idle {
		d = max(next.Sub(w.clock), time.Millisecond)
	}
	w.clock = w.clock.Add(d)
	w.workers = slices.DeleteFunc(w.workers, func(x *simWorker) bool {
		return x.dead() && w.clock.Sub(x.silent) > 3*time.Second
	})
	w.term.tick()
	w.term.settle()
}

func (w *world) chance(odds int) bool { return odds > 0 && w.rand.IntN(1000) < odds }

func (w *world) misfortune() {
	c := w.chaos
	if w.chance(c.flush) {
		w.flush()
	}
	if w.chance(c.queueAway) {
		w.away = !w.away
		w.note("queue away: %v", w.away)
	} else if w.away && w.rand.IntN(50) == 0 {
		w.away = false
	}
	if w.chance(c.killWorker) {
		if x := w.workers[w.rand.IntN(len(w.workers))]; !x.dead() {
			w.kill(x)
			w.hire(1 + w.rand.IntN(3))
		}
	}
	if w.lost < maxLost && w.chance(c.loseBlob) {
		w.loseBlob()
	}
	if w.chance(c.restart) {
		w.note("coordinator restarts")
		w.restarts++
		w.lead()
	}
}

// flush has the queue forget everything, the heartbeats included: workers write
// the next ones within a second.
func (w *world) flush() {
	w.note("flush: the queue forgets %d messages and %d reports", len(w.pending), len(w.reports))
	w.flushes++
	w.pending, w.reports, w.silence = nil, nil, w.clock.Add(time.Second)
}

// names are those of the objects in the store under a prefix.
func (w *world) names(prefix string) []string {
	w.t.Helper()
	var names []string
	for info, err := range w.memory.List(context.Background(), prefix) {
		if err != nil {
			w.t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// maxLost bounds how many blobs vanish in a world: where each loss costs more
// steps of a chain than come between two of them, no training would ever end.
const maxLost = 8

// loseBlob deletes or damages a blob of some node that is no cell's target.
func (w *world) loseBlob() {
	names := slices.DeleteFunc(w.names("blobs/"), func(name string) bool { return w.targets[strings.Split(name, "/")[1]] })
	if len(names) == 0 {
		return
	}
	name := names[w.rand.IntN(len(names))]
	w.lost++
	if w.rand.IntN(2) == 0 {
		w.note("blob is damaged: %s", name)
		w.damage(name)
		return
	}
	w.note("blob vanishes: %s", name)
	must.Do(w.t, w.memory.Delete(context.Background(), name))
}

// damage replaces the bytes of an object by other bytes, of equal number.
func (w *world) damage(name string) {
	w.t.Helper()
	info := must.Get(w.memory.Head(context.Background(), name))(w.t)
	must.Do(w.t, w.memory.Put(context.Background(), name, strings.NewReader(strings.Repeat("x", int(info.Size))), storage.Durable))
}

// kill ends a worker without a word; its heartbeat outlives it by its TTL.
func (w *world) kill(x *simWorker) {
	w.note("worker %s dies with %d attempts", x.id, len(x.running))
	x.silent = w.clock
	w.deaths++
}

func take[T any](r *rand.Rand, from *[]T) T {
	i := r.IntN(len(*from))
	x := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return x
}

// runJob executes a job; its result is applied at some later time.
func (w *world) runJob() {
	j := take(w.rand, &w.jobs)
	if w.chance(w.faults) {
		for _, op := range []storagetest.Op{storagetest.Get, storagetest.Head, storagetest.Delete} {
			w.store.Add(&storagetest.Fault{Op: op, Err: errors.New("503 slow down")})
		}
	}
	w.applying = append(w.applying, j(context.Background()))
	w.store.Clear()
}

func (w *world) apply() { take(w.rand, &w.applying)() }

// report delivers a report: perhaps twice, perhaps never.
func (w *world) report() {
	i := w.rand.IntN(len(w.reports))
	r := w.reports[i]
	if !w.chance(w.chaos.doubleReport) {
		w.reports = slices.Delete(w.reports, i, i+1)
	}
	if w.chance(w.chaos.loseReport) {
		w.note("a report is lost")
		return
	}
	w.term.report(r)
}

func (w *world) take(x *simWorker) {
	m := take(w.rand, &w.pending)
	if w.chance(w.chaos.losePending) {
		w.note("a message is lost")
		return
	}
	a := must.Get(attempts.DecodeAttempt(m.Payload))(w.t)
	e := &execution{id: m.ID, attempt: a}
	if slices.ContainsFunc(x.running, func(other *execution) bool { return other.id == e.id }) {
		return
	}
	e.next = func() { w.lookFirst(x, e) }
	x.running = append(x.running, e)
	if x.reads != nil {
		w.end(x, e, *x.reads(a))
	}
}

func (w *world) work(x *simWorker, e *execution) {
	if e.stopped {
		w.end(x, e, attempts.Outcome{Result: attempts.Returned})
		return
	}
	e.next()
}

// The steps of an execution are those of a real worker: look for the commit,
// compute, store the blobs, commit, report.
func (w *world) lookFirst(x *simWorker, e *execution) {
	f := must.Get(plan.LookUp(context.Background(), w.archive, e.attempt.Key))(w.t)
	if f.Available() {
		w.end(x, e, attempts.Outcome{Result: attempts.Done, Objects: f.Commit.Objects()})
		return
	}
	e.next = func() { w.compute(x, e) }
}

func (w *world) compute(x *simWorker, e *execution) {
	w.ran[e.attempt.Kind]++
	w.tried[e.attempt.Key]++
	if w.kills != nil && w.kills(e.attempt) {
		w.kill(x)
		w.hire(1)
		return
	}
	if w.override != nil {
		if o := w.override(e.attempt); o == hang {
			e.next = func() {}
			return
		} else if o != nil {
			w.end(x, e, *o)
			return
		}
	}
	sink := make(plantest.Sink)
	task := tasks.NewTask(e.attempt.Spec, plantest.Source{Archive: w.archive}, sink, nil, nil)
	err := plantest.Kinds[e.attempt.Kind].Run(context.Background(), task)
	var missing *tasks.MissingError
	switch {
	case errors.As(err, &missing):
		w.end(x, e, attempts.Outcome{Result: attempts.Missing, MissingNode: &missing.Node, Error: err.Error()})
	case tasks.IsPermanent(err):
		w.end(x, e, attempts.Outcome{Result: attempts.Refused, Error: err.Error()})
	case err != nil:
		w.end(x, e, attempts.Outcome{Result: attempts.Failed, Error: err.Error()})
	default:
		e.next = func() { w.putBlobs(x, e, sink) }
	}
}

// hang is the result of an override for an attempt that never ends.
var hang = new(attempts.Outcome)

func (w *world) putBlobs(x *simWorker, e *execution, sink plantest.Sink) {
	c := &storage.Commit{Key: e.attempt.Key, Kind: e.attempt.Kind, KindVersion: 1, Attempt: fmt.Sprint(x.id, e.id, w.rand.Uint64())}
	for _, name := range slices.Sorted(maps.Keys(sink)) {
		b := must.Get(w.archive.PutBlob(context.Background(), c.Key, name, sink[name], storage.Durable))(w.t)
		c.Blobs = append(c.Blobs, b)
	}
	e.next = func() { w.commit(x, e, c) }
}

func (w *world) commit(x *simWorker, e *execution, c *storage.Commit) {
	stands, won, err := w.archive.Commit(context.Background(), c)
	if err != nil {
		w.end(x, e, attempts.Outcome{Result: attempts.Failed, Error: err.Error()})
		return
	}
	o := attempts.Outcome{Result: attempts.Done, Objects: stands.Objects(), Seconds: w.seconds(e.attempt)}
	if !won {
		o.Divergent = stands.Differs(c)
	}
	w.end(x, e, o)
}

func (w *world) end(x *simWorker, e *execution, o attempts.Outcome) {
	e.next = nil
	x.running = slices.DeleteFunc(x.running, func(other *execution) bool { return other == e })
	o.Key, o.Number, o.Worker = e.attempt.Key, e.attempt.Number, x.id
	body := must.Get(o.Encode())(w.t)
	if x.reports != nil {
		body = x.reports(o)
	}
	w.reports = append(w.reports, queue.Report{ID: e.id, Worker: x.id, Body: body})
}
