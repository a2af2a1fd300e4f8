package cluster

import (
	"context"
	"sync"
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
	// MedianMS and P95MS are the times from a round's first task sent to the next
	// one's: the parts, which wait for the round before, and the join, which
	// waits for the parts.
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
	// StoreOperations and QueueCalls (to send, or to wait for reports) are the
	// coordinator's, per round.
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
