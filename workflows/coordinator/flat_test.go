package coordinator

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
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

// Invariant 9: the requests of a round to store and queue, and the
// coordinator's memory, do not depend on the number of rounds before. Counted,
// not timed.
func TestWorkPerRoundIsConstant(t *testing.T) {
	t.Parallel()
	m := newMachine(t, plantest.Federated(t, plantest.ChainOptions{Width: 3, Steps: 1000, Every: 100, KeepLast: 2, Big: true}))
	const warm = 300 // the rolling window is full by then
	before := m.runTo(warm)
	var windows []effort
	for round := warm + 100; round < 1000; round += 100 {
		after := m.runTo(round)
		windows = append(windows, after.minus(before))
		before = after
	}
	first := windows[0]
	for i, w := range windows {
		// A segment more adds its boundary: the record, its metric rows, and the
		// key that the plan remembers.
		if w.objects != 2 || w.held > 1 {
			t.Errorf("rounds %d to %d left %d objects more in the store and %d more in memory, want 2 and at most 1",
				warm+100*i, warm+100*(i+1), w.objects, w.held)
		}
		if w.messages != 400 || w.requests != first.requests || w.calls != first.calls {
			t.Errorf("rounds %d to %d took %d messages in %d calls and %d requests to the store; the first hundred took %d, %d and %d",
				warm+100*i, warm+100*(i+1), w.messages, w.calls, w.requests, first.messages, first.calls, first.requests)
		}
	}
	if perRound := float64(first.requests) / 100; perRound > 4*4 {
		t.Errorf("%.1f requests to the store a round of 3 parts and a join, want at most 4 for each", perRound)
	}
}

// effort counts the requests of a machine so far, and its memory.
type effort struct{ requests, calls, messages, objects, held int }

func (e effort) minus(x effort) effort {
	return effort{e.requests - x.requests, e.calls - x.calls, e.messages - x.messages, e.objects - x.objects, e.held - x.held}
}

// machine is a coordinator over a worker that does everything at once, in the
// order in which it comes.
type machine struct {
	*term
	t        *testing.T
	clock    time.Time
	requests atomic.Int64 // deletions are made at the same time
	worker   *instantWorker
	jobs     []job
}

func newMachine(t *testing.T, p *plan.Plan) *machine {
	memory := storagetest.NewMemory()
	m := &machine{t: t, clock: time.Unix(1_700_000_000, 0)}
	store := storagetest.WithFaults(memory,
		&storagetest.Fault{Op: storagetest.List, Call: func() { m.requests.Add(1000) }}, // nothing on the path of a round may list
		&storagetest.Fault{Call: func() { m.requests.Add(1) }})
	m.worker = &instantWorker{archive: storage.NewArchive(memory)}
	cfg := Config{
		Archive: storage.NewArchive(countedDeletions{store, &m.requests}), Queue: m.worker, Registry: plantest.Kinds, MaxTries: 1,
		Log:     slog.New(slog.DiscardHandler),
		Compile: func(context.Context, *runs.Run) (plan.Parts, error) { return plan.SinglePart(p), nil },
	}
	spec := runs.Spec{Name: "flat", Digest: storage.DigestOf([]byte("{}")), Experiment: []byte("{}")}
	if _, _, err := runs.NewService(m.worker.archive, m.now).Submit(t.Context(), spec, "", true); err != nil {
		t.Fatal(err)
	}
	token := must.Get((&leadership.Contest{Archive: m.worker.archive}).Begin(t.Context()))(t)
	m.term = newTerm(cfg, observe.NewCounters(nil), token, m.now, func(_ lane, j job) { m.jobs = append(m.jobs, j) })
	m.begin()
	return m
}

// countedDeletions counts a request for each further object of a deletion.
type countedDeletions struct {
	storage.Store
	requests *atomic.Int64
}

func (d countedDeletions) Delete(ctx context.Context, names ...string) error {
	d.requests.Add(int64(len(names) - 1))
	return d.Store.Delete(ctx, names...)
}

func (m *machine) now() time.Time { return m.clock }

// runTo goes on until the training stands at a round.
func (m *machine) runTo(round int) effort {
	for m.at() < round {
		m.clock = m.clock.Add(time.Millisecond)
		m.tick()
		m.settle()
		for len(m.jobs) > 0 {
			next := m.jobs[0]
			m.jobs = m.jobs[1:]
			next(m.t.Context())()
			m.settle()
		}
		m.term.reports(m.worker.take())
		m.settle()
		if m.deposed != nil || m.clock.Unix() > 1_700_001_000 {
			m.t.Fatalf("stuck at round %d: %v", m.at(), m.deposed)
		}
	}
	objects := 0
	for range m.worker.archive.Store().List(m.t.Context(), "") {
		objects++
	}
	held := counter{seen: make(map[uintptr]bool)}
	held.add(reflect.ValueOf(m.term))
	return effort{int(m.requests.Load()), m.worker.calls, m.worker.messages, objects, held.n}
}

func (m *machine) at() int {
	for _, ch := range m.graph.Chains() {
		return ch.At
	}
	return 0
}

// instantWorker is a queue with a worker that has finished its attempts by the
// time it is asked for reports.
type instantWorker struct {
	Queue
	archive         *storage.Archive
	done            []queue.Report
	calls, messages int
}

func (w *instantWorker) Enqueue(ctx context.Context, messages ...queue.Message) error {
	w.calls++
	w.messages += len(messages)
	for _, m := range messages {
		a, err := attempts.DecodeAttempt(m.Payload)
		if err != nil {
			return err
		}
		c, err := plantest.Execute(ctx, w.archive, a.Spec, a.ID())
		if err != nil {
			return err
		}
		body, err := json.Marshal(attempts.Outcome{Key: a.Key, Number: a.Number, Worker: "w", Result: attempts.Done, Objects: c.Objects()})
		if err != nil {
			return err
		}
		w.done = append(w.done, queue.Report{ID: m.ID, Worker: "w", Body: body})
	}
	return nil
}

func (w *instantWorker) take() []queue.Report {
	reports := w.done
	w.done = nil
	return reports
}

func (w *instantWorker) Workers(context.Context) ([]queue.Worker, error) {
	return []queue.Worker{{ID: "w", Classes: []string{string(tasks.Compute)}, Slots: 8, Kinds: plantest.Kinds.Advertised()}}, nil
}

func (w *instantWorker) Known(_ context.Context, ids []string) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, id := range ids {
		known[id] = true
	}
	return known, nil
}

// counter counts the values that can be reached from a value: pointers once
// each, and the elements of slices and maps. It does not see variables that a
// job has captured.
type counter struct {
	seen map[uintptr]bool
	n    int
}

// elsewhere holds the values that a term uses and does not own.
var elsewhere = []reflect.Type{
	reflect.TypeFor[*storage.Archive](), reflect.TypeFor[*runs.Service](), reflect.TypeFor[*slog.Logger](), reflect.TypeFor[Queue](),
}

func (c *counter) add(v reflect.Value) {
	if !v.IsValid() || slices.Contains(elsewhere, v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !c.seen[v.Pointer()] {
			c.seen[v.Pointer()] = true
			c.n++
			c.add(v.Elem())
		}
	case reflect.Interface:
		c.add(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			c.add(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		c.n += v.Len()
		for i := range v.Len() {
			c.add(v.Index(i))
		}
	case reflect.Map:
		c.n += v.Len()
		for _, key := range v.MapKeys() {
			c.add(v.MapIndex(key))
		}
	}
}
