package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/workflows/coordinator/graph"
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

// roundBuckets are in seconds: from rounds of toy models to rounds of thousands
// of clients.
var roundBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 300, 1800}

// NewCounters registers the counters with r, if it is not nil.
func NewCounters(r prometheus.Registerer) *Counters {
	auto := promauto.With(r)
	return &Counters{
		Terms: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_leader_terms_total",
			Help: "How often this process has begun to lead.",
		}),
		Attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_attempts_total",
			Help: "Attempts that have ended, by kind of task and result: done, failed, refused, missing, returned, or lost with its worker or by the queue.",
		}, []string{"kind", "result"}),
		Takeovers: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_takeovers_total",
			Help: "Attempts whose worker died and whose task was given to another.",
		}),
		Failures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_node_failures_total",
			Help: "Nodes that were given up, by kind of task; their cells fail.",
		}, []string{"kind"}),
		Divergent: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_divergent_attempts_total",
			Help: "Attempts whose bytes differ from those of another attempt at the same node, by kind of task: never, unless a machine is broken.",
		}, []string{"kind"}),
		Rounds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coalmine_round_duration_seconds",
			Help:    "From the beginning of a round until it is committed, by the kind of task that ends it; for SGD, the mean over the steps of one task.",
			Buckets: roundBuckets,
		}, []string{"kind"}),
	}
}

// Lost is the result of an attempt that was not reported.
const Lost = "lost"

// CountAttempt counts an attempt that has ended.
func (c *Counters) CountAttempt(kind, result string) {
	c.Attempts.WithLabelValues(kind, result).Inc()
}

// CountRound counts a committed step of a chain.
func (c *Counters) CountRound(s *graph.Step, now time.Time) {
	seconds := now.Sub(s.Began).Seconds() / float64(max(1, s.Chain.Shape.StepRounds))
	c.Rounds.WithLabelValues(s.Join.Kind()).Observe(seconds)
}
