package observe

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/runs"
)

// Counters count events while this process leads. No label names a run or a
// node, because each would be a new time series.
type Counters struct {
	Terms     prometheus.Counter
	Attempts  *prometheus.CounterVec
	Takeovers prometheus.Counter
	Failures  *prometheus.CounterVec
	Divergent *prometheus.CounterVec
	Rounds    *prometheus.HistogramVec
}

// roundBuckets are durations in seconds, from rounds of toy models to rounds of thousands of clients.
var roundBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 300, 1800}

// NewCounters registers the counters with r, if it is not nil.
func NewCounters(r prometheus.Registerer) *Counters {
	auto := promauto.With(r)
	return &Counters{
		Terms: auto.NewCounter(prometheus.CounterOpts{Name: "coalmine_leader_terms_total", Help: "Number of times that this process has begun to lead."}),
		Attempts: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_attempts_total",
			Help: "Attempts that have ended, by kind of task and result: done, failed, refused, missing, returned, or lost with its worker or by the queue."}, []string{"kind", "result"}),
		Takeovers: auto.NewCounter(prometheus.CounterOpts{Name: "coalmine_takeovers_total", Help: "Attempts whose worker died and whose task went to another worker."}),
		Failures: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_node_failures_total",
			Help: "Nodes that have failed, by kind of task; their cells fail."}, []string{"kind"}),
		Divergent: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_divergent_attempts_total",
			Help: "Attempts whose outputs differ from another attempt at the same node, by kind of task: 0 unless a machine is broken."}, []string{"kind"}),
		Rounds: auto.NewHistogramVec(prometheus.HistogramOpts{Name: "coalmine_round_duration_seconds",
			Help: "Time from the beginning of a round to its commit, by the kind of task that ends it; for SGD, the mean over the steps of one task.", Buckets: roundBuckets}, []string{"kind"}),
	}
}

// Lost is the result of an attempt that was not reported.
const Lost = "lost"

// CountAttempt counts an attempt that has ended.
func (c *Counters) CountAttempt(kind, result string) { c.Attempts.WithLabelValues(kind, result).Inc() }

// CountRound counts a committed step of a chain.
func (c *Counters) CountRound(s *graph.Step, now time.Time) {
	seconds := now.Sub(s.Began).Seconds() / float64(max(1, s.Chain.Shape.StepRounds))
	c.Rounds.WithLabelValues(s.Join.Kind()).Observe(seconds)
}

// Meter measures a rate over the last half minute. The zero value measures 0.
type Meter struct {
	buckets [meterBuckets]int64
	newest  int64 // number of the newest bucket
	first   time.Time
}

const (
	meterBuckets = 30
	meterBucket  = time.Second
)

// Add adds n to the count.
func (m *Meter) Add(now time.Time, n int64) {
	if n == 0 {
		return
	}
	if m.first.IsZero() {
		m.first = now
	}
	m.turn(now)
	m.buckets[m.newest%meterBuckets] += n
}

func (m *Meter) turn(now time.Time) {
	bucket := now.UnixNano() / int64(meterBucket)
	for i := max(m.newest+1, bucket-meterBuckets+1); i <= bucket; i++ {
		m.buckets[i%meterBuckets] = 0
	}
	m.newest = max(m.newest, bucket)
}

// Rate returns the rate per second.
func (m *Meter) Rate(now time.Time) float64 {
	if m.first.IsZero() {
		return 0
	}
	m.turn(now)
	var sum int64
	for _, n := range m.buckets {
		sum += n
	}
	span := min(now.Sub(m.first), meterBuckets*meterBucket).Seconds()
	return float64(sum) / max(span, 1)
}

// The states of wanted tasks in metrics.
const (
	Blocked  = "blocked"  // its inputs are not available yet
	Parked   = "parked"   // no live worker supports its kind
	Ready    = "ready"    // waits for a place in the queue
	Queued   = "queued"   // waits in the queue for a slot
	Running  = "running"  // an attempt runs
	Retrying = "retrying" // waits after an attempt that failed
)

// TaskStates lists the states of tasks in metrics.
var TaskStates = []string{Blocked, Parked, Ready, Queued, Running, Retrying}

// taskState returns the state of a task for metrics, "" for a finished one.
func (v *View) taskState(x *graph.Task) string {
	switch x.State() {
	case graph.Idle:
		return Blocked
	case graph.Parked:
		return Parked
	case graph.Ready:
		return Ready
	case graph.Pausing:
		return Retrying
	case graph.InFlight:
		if slices.ContainsFunc(v.Graph.AttemptsAt(x), func(a *graph.Attempt) bool { return a.Worker != "" }) {
			return Running
		}
		return Queued
	case graph.Finished:
	}
	return ""
}

// Stock holds the numbers of tasks, attempts and workers at one moment.
type Stock struct {
	Runs  map[runs.Phase]int
	Tasks counts
	Slots map[tasks.Class]int
	// Active and Draining are numbers of workers.
	Active, Draining int
	QueueUp, StoreUp bool
}

// Stock counts the tasks, attempts and workers. It walks the nodes of live runs, so call it only on request.
func (v *View) Stock(classes ...tasks.Class) Stock {
	s := Stock{
		Runs: map[runs.Phase]int{}, Tasks: counts{}, Slots: maps.Clone(v.Dispatcher.Fleet.Slots),
		QueueUp: !v.Queue.On(), StoreUp: !v.Store.On(),
	}
	for _, class := range classes {
		s.Tasks[class] = map[string]int{}
	}
	for _, r := range v.Graph.Runs() {
		s.Runs[r.State.Phase]++
	}
	for x := range v.Graph.Tasks() {
		if state := v.taskState(x); state != "" && len(x.Wants) > 0 {
			s.Tasks.add(v.Dispatcher.ClassOf(x), state)
		}
	}
	for _, w := range v.Dispatcher.Fleet.Workers {
		if w.Draining {
			s.Draining++
		} else {
			s.Active++
		}
	}
	return s
}

// counts are numbers of tasks by class and state.
type counts map[tasks.Class]map[string]int

func (c counts) add(class tasks.Class, state string) {
	if c[class] == nil {
		c[class] = map[string]int{}
	}
	c[class][state]++
}
