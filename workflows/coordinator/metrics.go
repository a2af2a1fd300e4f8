package coordinator

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/tasks"
	"coalmine/workflows/runs"
)

// metrics count what happens while this process leads. No label names a run or
// a node: a long run would make a series of each.
type metrics struct {
	terms     prometheus.Counter
	attempts  *prometheus.CounterVec
	takeovers prometheus.Counter
	failures  *prometheus.CounterVec
	divergent *prometheus.CounterVec
	rounds    *prometheus.HistogramVec
}

// roundBuckets reach from the round of a toy to one of thousands of clients, in
// seconds.
var roundBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 300, 1800}

// newMetrics registers the metrics with r, or with nobody if r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	auto := promauto.With(r)
	return &metrics{
		terms: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_leader_terms_total",
			Help: "How often this process has begun to lead.",
		}),
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_attempts_total",
			Help: "Attempts that have ended, by kind of task and result: done, failed, refused, missing, returned, or lost with its worker or by the queue.",
		}, []string{"kind", "result"}),
		takeovers: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_takeovers_total",
			Help: "Attempts whose worker died and whose task was given to another.",
		}),
		failures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_node_failures_total",
			Help: "Nodes that were given up, by kind of task; their cells fail.",
		}, []string{"kind"}),
		divergent: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_divergent_attempts_total",
			Help: "Attempts whose bytes differ from those of another attempt at the same node, by kind of task: never, unless a machine is broken.",
		}, []string{"kind"}),
		rounds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coalmine_round_duration_seconds",
			Help:    "From the beginning of a round until it is committed, by the kind of task that ends it; for SGD, the mean over the steps of one task.",
			Buckets: roundBuckets,
		}, []string{"kind"}),
	}
}

// lost is the result of an attempt that nobody has reported.
const lost = "lost"

func (t *term) countAttempt(x *task, result string) {
	t.metrics.attempts.WithLabelValues(x.spec.Kind, result).Inc()
}

// countRound takes in that a step of a chain is committed.
func (t *term) countRound(s *step) {
	seconds := t.now().Sub(s.began).Seconds() / float64(max(1, s.chain.shape.StepRounds))
	t.metrics.rounds.WithLabelValues(s.join.spec.Kind).Observe(seconds)
}

// Of a task that is wanted, metrics tell one of these.
const (
	taskBlocked  = "blocked"  // its inputs are not there yet
	taskParked   = "parked"   // no live worker knows its kind
	taskReady    = "ready"    // waits for a place in the queue
	taskQueued   = "queued"   // waits in the queue for a slot
	taskRunning  = "running"  // is at work
	taskRetrying = "retrying" // waits after an attempt that failed
)

var taskStates = []string{taskBlocked, taskParked, taskReady, taskQueued, taskRunning, taskRetrying}

// metricsState is what metrics tell of a task, "" of one that is finished.
func (x *task) metricsState() string {
	switch x.state {
	case idle:
		return taskBlocked
	case parked:
		return taskParked
	case ready:
		return taskReady
	case pausing:
		return taskRetrying
	case inFlight:
		if slices.ContainsFunc(x.attempts, func(a *attempt) bool { return a.worker != "" }) {
			return taskRunning
		}
		return taskQueued
	}
	return ""
}

// stock is how things stand at one moment of a term.
type stock struct {
	runs             map[runs.Phase]int
	tasks            map[tasks.Class]map[string]int // by class and state
	slots            map[tasks.Class]int
	active, draining int // workers
	redisUp, storeUp bool
}

// takeStock counts what is there. It costs a walk over the nodes of live runs,
// which is why it is done when somebody asks and not before.
func (t *term) takeStock() stock {
	s := stock{
		runs: map[runs.Phase]int{}, tasks: map[tasks.Class]map[string]int{}, slots: maps.Clone(t.slots),
		redisUp: t.queueDown.since.IsZero(), storeUp: t.storageDown.since.IsZero(),
	}
	for _, kind := range t.Registry {
		s.tasks[kind.Class] = map[string]int{}
	}
	for _, r := range t.order {
		s.runs[r.state.Phase]++
	}
	for _, n := range t.nodes {
		s.count(t, n.task)
	}
	for _, ch := range t.chains {
		if ch.current != nil {
			for _, x := range ch.current.tasks() {
				s.count(t, x)
			}
		}
	}
	for _, w := range t.workers {
		if w.Draining {
			s.draining++
		} else {
			s.active++
		}
	}
	return s
}

func (s *stock) count(t *term, x *task) {
	state := x.metricsState()
	if state == "" || len(x.wants) == 0 {
		return
	}
	class := t.classOf(x)
	if s.tasks[class] == nil {
		s.tasks[class] = map[string]int{}
	}
	s.tasks[class][state]++
}

// Metrics that are taken when somebody asks.
var (
	leaderDesc  = prometheus.NewDesc("coalmine_leader", "1 if this process leads, 0 if it stands by. What follows is told by the leader alone.", nil, nil)
	runsDesc    = prometheus.NewDesc("coalmine_runs", "Runs, by state.", []string{"state"}, nil)
	tasksDesc   = prometheus.NewDesc("coalmine_tasks", "Tasks that some run waits for, by class and state: blocked, parked, ready, queued, running or retrying.", []string{"class", "state"}, nil)
	depthDesc   = prometheus.NewDesc("coalmine_queue_depth", "Tasks that could run now and wait for a slot, by class: those that are ready and those that are queued.", []string{"class"}, nil)
	workersDesc = prometheus.NewDesc("coalmine_workers", "Live workers, by whether they take tasks (active) or are about to end (draining).", []string{"state"}, nil)
	slotsDesc   = prometheus.NewDesc("coalmine_slots", "Slots of the live workers that take tasks, by class.", []string{"class"}, nil)
	redisDesc   = prometheus.NewDesc("coalmine_redis_up", "1 if Redis answered the leader when it last asked.", nil, nil)
	storeDesc   = prometheus.NewDesc("coalmine_store_up", "1 if the store answered the leader when it last asked.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Coordinator) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, runsDesc, tasksDesc, depthDesc, workersDesc, slotsDesc, redisDesc, storeDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Coordinator) Collect(into chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	var s stock
	leads := c.ask(func(t *term) { s = t.takeStock() })
	gauge(leaderDesc, oneIf(leads))
	if !leads {
		return
	}
	for _, phase := range []runs.Phase{runs.Queued, runs.Running, runs.Paused, runs.Done, runs.Failed, runs.Cancelled} {
		gauge(runsDesc, float64(s.runs[phase]), string(phase))
	}
	for class, counts := range s.tasks {
		for _, state := range taskStates {
			gauge(tasksDesc, float64(counts[state]), string(class), state)
		}
		gauge(depthDesc, float64(counts[taskReady]+counts[taskQueued]), string(class))
		gauge(slotsDesc, float64(s.slots[class]), string(class))
	}
	gauge(workersDesc, float64(s.active), "active")
	gauge(workersDesc, float64(s.draining), "draining")
	gauge(redisDesc, oneIf(s.redisUp))
	gauge(storeDesc, oneIf(s.storeUp))
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// ask has the loop run a query, and reports whether this process leads and did.
func (c *Coordinator) ask(query func(*term)) bool {
	l := c.leading.Load()
	if l == nil {
		return false
	}
	answered := make(chan struct{})
	l.deliver(func() {
		query(l.term)
		close(answered)
	})
	select {
	case <-answered:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// Leads reports whether this process leads.
func (c *Coordinator) Leads() bool { return c.leading.Load() != nil }
