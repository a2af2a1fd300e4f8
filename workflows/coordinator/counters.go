package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/workflows/coordinator/graph"
)

// counters count what happens while this process leads. No label names a run or
// a node: a long run would make a series of each.
type counters struct {
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

// newCounters registers the counters with r, or with nobody if r is nil.
func newCounters(r prometheus.Registerer) *counters {
	auto := promauto.With(r)
	return &counters{
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

func (c *counters) countAttempt(kind, result string) {
	c.attempts.WithLabelValues(kind, result).Inc()
}

// countRound takes in that a step of a chain is committed.
func (c *counters) countRound(s *graph.Step, now time.Time) {
	seconds := now.Sub(s.Began).Seconds() / float64(max(1, s.Chain.Shape.StepRounds))
	c.rounds.WithLabelValues(s.Join.Kind()).Observe(seconds)
}
