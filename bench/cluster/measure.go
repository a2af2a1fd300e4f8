package cluster

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage/open"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/plan"
)

// Tasks is the throughput of tasks while every slot has work.
type Tasks struct {
	Tasks   int     `json:"tasks"`
	Seconds float64 `json:"seconds"`
	// PerSecond is measured from the first task sent to the last report.
	PerSecond float64 `json:"per_second"`
	// Milliseconds is the processor time of a task.
	Milliseconds CPU `json:"cpu_ms_per_task"`
}

// sideBySide is the number of concurrent trainings, so that the slots have work
// during each one's barrier. The parts of each fill a tenth of the slots.
const sideBySide = 20

// tasks measures the cluster's throughput in tasks a second.
func (c *cluster) tasks(ctx context.Context) (*Tasks, error) {
	s := shape{Name: "bench-tasks", Cells: sideBySide, Parts: max(c.Slots/(sideBySide/2)-1, 1)}
	s.Rounds = max(c.Options.Tasks/(s.Cells*(s.Parts+1)), 1)
	c.Note("%d tasks: %d trainings of %d rounds of %d tasks", s.tasks(), s.Cells, s.Rounds, s.Parts+1)
	q := &observedQueue{Queue: c.broker}
	before := c.snapshot()
	if err := c.carryOut(ctx, s, q); err != nil {
		return nil, err
	}
	after := c.snapshot()
	took := q.last.Sub(q.first).Seconds()
	return &Tasks{Tasks: q.reports, Seconds: took, PerSecond: float64(q.reports) / took, Milliseconds: after.since(before, float64(q.reports)/1000)}, nil
}

// Rounds is the cost of the rounds of one long training.
type Rounds struct {
	Rounds int `json:"rounds"`
	Chunks int `json:"chunks"`
	// MedianMS and P95MS are the times from a round's first task sent to the next one's: the parts,
	// which wait for the round before, and the join, which waits for the parts.
	MedianMS float64 `json:"median_ms"`
	P95MS    float64 `json:"p95_ms"`
	// Windows are ten parts of the training.
	Windows []Window `json:"windows"`
}

// windows is the number of Rounds.Windows.
const windows = 10

// Window is a tenth of the training.
type Window struct {
	// Through is the last round of the window.
	Through  int     `json:"through"`
	MedianMS float64 `json:"median_ms"`
	P95MS    float64 `json:"p95_ms"`
	// HeapBytes and HeapObjects are the coordinator's live heap at the end,
	// Resident the memory of its process.
	HeapBytes   int64 `json:"coordinator_heap_bytes"`
	HeapObjects int64 `json:"coordinator_heap_objects"`
	Resident    int64 `json:"coordinator_resident_bytes"`
	// StoreOperations and QueueCalls (to send, or to wait for reports) are the coordinator's, per round.
	StoreOperations float64 `json:"store_operations_per_round"`
	QueueCalls      float64 `json:"queue_calls_per_round"`
	// Milliseconds is the processor time of a round.
	Milliseconds CPU `json:"cpu_ms_per_round"`
}

func (c *cluster) rounds(ctx context.Context) (*Rounds, error) {
	every := c.Options.Rounds / windows
	// One round more, so that the last window ends while the training continues.
	s := shape{Name: "bench-rounds", Cells: 1, Parts: c.Chunks, Rounds: every*windows + 1}
	c.Note("%d rounds of %d parts and a join", s.Rounds, s.Parts)
	p, err := s.plan()
	if err != nil {
		return nil, err
	}
	q := &observedQueue{Queue: c.broker}
	m := windowMeter{cluster: c, queue: q, every: every}
	q.watch(p.Cells[0].Chain, every, m.begin)
	err = c.carryOut(ctx, s, q)
	m.samples.Wait()
	if err != nil {
		return nil, err
	}
	took := q.times(0, s.Rounds)
	return &Rounds{Rounds: every * windows, Chunks: s.Parts, MedianMS: quantile(took, 0.5), P95MS: quantile(took, 0.95), Windows: m.windows()}, nil
}

// windowMeter takes a sample at the beginning of each window.
type windowMeter struct {
	*cluster
	queue   *observedQueue
	every   int
	samples sync.WaitGroup

	mu    sync.Mutex
	marks []mark
}

// mark is a sample before a window, which ends the previous window.
type mark struct {
	round             int
	used              snapshot
	heap, objects     int64
	operations, calls int64
}

// begin is called while a message is sent, and must not take long.
func (m *windowMeter) begin(round int) { m.samples.Go(func() { m.take(round) }) }

func (m *windowMeter) take(round int) {
	x := mark{round: round, used: m.snapshot(), operations: m.store.Operations(), calls: m.queue.calls.Load()}
	x.heap, x.objects = heap()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks = append(m.marks, x)
}

func (m *windowMeter) windows() []Window {
	var out []Window
	n := float64(m.every)
	for i := 1; i < len(m.marks); i++ {
		a, b := m.marks[i-1], m.marks[i]
		took := m.queue.times(a.round, b.round)
		out = append(out, Window{
			Through: b.round, MedianMS: quantile(took, 0.5), P95MS: quantile(took, 0.95),
			HeapBytes: b.heap, HeapObjects: b.objects, Resident: b.used.coordinator.Resident,
			StoreOperations: float64(b.operations-a.operations) / n, QueueCalls: float64(b.calls-a.calls) / n,
			Milliseconds: b.used.since(a.used, n/1000),
		})
	}
	return out
}

// Idle is the cost of idle processes.
type Idle struct {
	Seconds float64 `json:"seconds"`
	// Percent is of one core.
	Percent CPU `json:"cpu_percent"`
	// WorkersResident is the memory of all worker processes.
	WorkersResident int64 `json:"workers_resident_bytes"`
}

// idle measures a coordinator that leads without an active run, and its workers.
func (c *cluster) idle(ctx context.Context) (*Idle, error) {
	c.Note("nothing for %s", c.Options.Idle)
	leading, stop := context.WithTimeout(ctx, c.Options.Idle)
	defer stop()
	leader, err := newLeader(c.archive, c.broker, c.Log)
	if err != nil {
		return nil, err
	}
	before := c.snapshot()
	if err := leader.Lead(leading); err != nil {
		return nil, err
	}
	after := c.snapshot()
	took := after.at.Sub(before.at).Seconds()
	return &Idle{Seconds: took, Percent: after.since(before, took/100), WorkersResident: after.workers.Resident}, ctx.Err()
}

// snapshot holds the resources that all processes have used so far.
type snapshot struct {
	at                          time.Time
	coordinator, workers, redis Usage
}

func (c *cluster) snapshot() snapshot {
	s := snapshot{at: time.Now(), coordinator: UsageOf(os.Getpid())}
	for _, w := range c.workers {
		u := w.Usage()
		s.workers.CPU += u.CPU
		s.workers.Resident += u.Resident
	}
	if c.redis != nil {
		s.redis = c.redis.Usage()
	}
	return s
}

// CPU is the processor time of the three parts.
type CPU struct {
	Coordinator float64 `json:"coordinator"`
	Workers     float64 `json:"workers"`
	Redis       float64 `json:"redis"`
}

// since returns the processor time since an earlier snapshot, in seconds divided by per.
func (s snapshot) since(before snapshot, per float64) CPU {
	return CPU{
		Coordinator: (s.coordinator.CPU - before.coordinator.CPU).Seconds() / per,
		Workers:     (s.workers.CPU - before.workers.CPU).Seconds() / per,
		Redis:       (s.redis.CPU - before.redis.CPU).Seconds() / per,
	}
}

// heap returns the bytes and the number of live objects on this process's heap.
func heap() (bytes, objects int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.HeapObjects)
}

// observedQueue records the times at which the coordinator sends and receives messages.
type observedQueue struct {
	coordinator.Queue
	calls atomic.Int64 // of Enqueue and Reports

	mu          sync.Mutex
	first, last time.Time // the first message, the last report
	reports     int

	// The rounds of one training, if it is watched.
	training *plan.Chain
	next     string // first message of the next round
	began    []time.Time
	// every is the number of rounds between calls of window.
	every  int
	window func(round int)
}

// watch records the start of each round of a training, and calls window, asynchronously, after the start
// of the first round and then after every given number of rounds.
func (q *observedQueue) watch(c *plan.Chain, every int, window func(round int)) {
	q.training, q.every, q.window = c, every, window
	q.began = make([]time.Time, 0, c.Steps)
	q.await(1)
}

// await computes the name of the first message of a round.
func (q *observedQueue) await(round int) { q.next = fmt.Sprintf("%s.1", q.training.PartKey(round, 0)) }

// Enqueue implements coordinator.Queue.
func (q *observedQueue) Enqueue(ctx context.Context, messages ...queue.Message) error {
	q.calls.Add(1)
	q.sending(messages)
	return q.Queue.Enqueue(ctx, messages...)
}

func (q *observedQueue) sending(messages []queue.Message) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first.IsZero() {
		q.first = now
	}
	begins := func(m queue.Message) bool { return m.ID == q.next }
	if q.training == nil || !slices.ContainsFunc(messages, begins) {
		return
	}
	if len(q.began)%q.every == 0 {
		q.window(len(q.began))
	}
	q.began = append(q.began, now)
	q.await(len(q.began) + 1)
}

func (q *observedQueue) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	q.calls.Add(1)
	reports, err := q.Queue.Reports(ctx, wait)
	if len(reports) > 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.last = time.Now()
		q.reports += len(reports)
	}
	return reports, err
}

// times returns the durations of rounds from..to-1, counted from 0.
func (q *observedQueue) times(from, to int) []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var took []time.Duration
	for i := from + 1; i < min(to, len(q.began)); i++ {
		took = append(took, q.began[i].Sub(q.began[i-1]))
	}
	return took
}

// quantile returns a quantile of durations in milliseconds, 0 for an empty list.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return milliseconds(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// openMetered opens a store that counts the requests of this process.
func openMetered(ctx context.Context, location string) (*open.Metered, error) {
	store, err := open.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return open.Meter(store, nil), nil
}
