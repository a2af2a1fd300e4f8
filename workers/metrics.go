package workers

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

// metrics are a worker's metrics for Prometheus. Their labels are few and fixed:
// kinds, results and caches, never runs or nodes.
type metrics struct {
	registry    tasks.Registry
	attempts    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	lookups     *prometheus.CounterVec
	cached      *prometheus.GaugeVec
	slots, busy prometheus.Gauge
	memoryLimit prometheus.Gauge
	work        *work // the same without kinds, for heartbeats
}

// attemptBuckets range from an attempt that finds its node done to one of an
// audit or a long step of training, in seconds.
var attemptBuckets = []float64{.005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200}

// newMetrics registers the metrics with r, unless r is nil.
func newMetrics(r prometheus.Registerer, known tasks.Registry) *metrics {
	auto := promauto.With(r)
	return &metrics{
		registry: known,
		work:     new(work),
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_worker_attempts_total",
			Help: "Attempts that this worker has finished, by kind of task and result.",
		}, []string{"kind", "result"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coalmine_worker_attempt_duration_seconds",
			Help:    "Duration of this worker's attempts, by kind of task.",
			Buckets: attemptBuckets,
		}, []string{"kind"}),
		tokens: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_worker_tokens_total",
			Help: "Tokens that this worker has trained on, evaluated or scored.",
		}, []string{"kind"}),
		lookups: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_worker_cache_lookups_total",
			Help: "Lookups in a cache (blobs and disk: inputs; commits: records; values: decoded inputs) by outcome: hit or miss.",
		}, []string{"cache", "outcome"}),
		cached: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coalmine_worker_cache_bytes",
			Help: "Bytes in a cache.",
		}, []string{"cache"}),
		slots: auto.NewGauge(prometheus.GaugeOpts{
			Name: "coalmine_worker_slots",
			Help: "Number of concurrent tasks of each class.",
		}),
		busy: auto.NewGauge(prometheus.GaugeOpts{
			Name: "coalmine_worker_busy_slots",
			Help: "Attempts that this worker is running.",
		}),
		memoryLimit: auto.NewGauge(prometheus.GaugeOpts{
			Name: "coalmine_worker_memory_limit_bytes",
			Help: "Memory that the process may use before attempts are handed back; 0 if there is no limit.",
		}),
	}
}

// kind returns the label of a kind. Unknown kinds share one, so that messages cannot create series.
func (m *metrics) kind(name string) string {
	if _, known := m.registry[name]; known {
		return name
	}
	return "unknown"
}

func (m *metrics) ended(kind string, out *attempts.Outcome) {
	m.work.ended.Add(1)
	m.attempts.WithLabelValues(m.kind(kind), string(out.Result)).Inc()
	m.seconds.WithLabelValues(m.kind(kind)).Observe(out.Seconds)
}

// counted passes progress on to report and counts its new tokens.
func (m *metrics) counted(kind string, report func(tasks.Progress)) func(tasks.Progress) {
	tokens := m.tokens.WithLabelValues(m.kind(kind))
	var last int64
	return func(p tasks.Progress) {
		if p.Tokens > last {
			tokens.Add(float64(p.Tokens - last))
			m.work.tokens.Add(p.Tokens - last)
			last = p.Tokens
		}
		report(p)
	}
}

func (m *metrics) gauge(name string) cacheMetrics {
	return cacheMetrics{
		hits:   m.lookups.WithLabelValues(name, "hit"),
		misses: m.lookups.WithLabelValues(name, "miss"),
		bytes:  m.cached.WithLabelValues(name),
		work:   m.work,
	}
}

// cacheMetrics are the metrics of one cache; the zero value counts nothing.
type cacheMetrics struct {
	hits, misses prometheus.Counter
	bytes        prometheus.Gauge
	work         *work
}

func (m *cacheMetrics) looked(hit bool) {
	if m.hits == nil {
		return
	}
	m.work.looked(hit)
	if hit {
		m.hits.Inc()
	} else {
		m.misses.Inc()
	}
}

func (m *cacheMetrics) holds(bytes int64) {
	if m.bytes != nil {
		m.bytes.Set(float64(bytes))
	}
}

// progressBoard holds the progress of running attempts, by ID in the queue.
type progressBoard struct {
	mu      sync.Mutex
	entries map[string]*atomic.Pointer[tasks.Progress]
}

// reporter returns the function with which an attempt reports its progress.
func (b *progressBoard) reporter(id string) func(tasks.Progress) {
	entry := &atomic.Pointer[tasks.Progress]{}
	b.mu.Lock()
	b.entries[id] = entry
	b.mu.Unlock()
	return func(p tasks.Progress) { entry.Store(&p) }
}

// of returns the last progress of an attempt, zero before the first report.
func (b *progressBoard) of(id string) queue.Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.entries[id]; entry != nil {
		if p := entry.Load(); p != nil {
			return queue.Progress(*p)
		}
	}
	return queue.Progress{}
}

// end removes an attempt and returns its last progress.
func (b *progressBoard) end(id string) queue.Progress {
	p := b.of(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, id)
	return p
}

// work counts the tasks of a worker, for its heartbeats. The zero value has done nothing.
type work struct {
	ended, tokens, hits, misses atomic.Int64

	mu      sync.Mutex
	rate    float64   // recent tokens a second
	seen    int64     // tokens when the rate was last computed
	updated time.Time // time of that computation
}

// lately is the age at which a rate has half its weight in the mean.
const lately = 10 * time.Second

// soFar returns the finished work. The rate is a mean over the intervals between calls,
// weighted towards recent ones.
func (w *work) soFar(now time.Time) queue.Work {
	tokens := w.tokens.Load()
	return queue.Work{
		Ended: w.ended.Load(), Tokens: tokens, TokensPerSecond: w.tokenRate(now, tokens),
		CacheHits: w.hits.Load(), CacheMisses: w.misses.Load(),
	}
}

func (w *work) tokenRate(now time.Time, tokens int64) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := now.Sub(w.updated)
	switch {
	case w.updated.IsZero():
	case since <= 0:
		return w.rate
	default:
		kept := math.Exp2(-since.Seconds() / lately.Seconds())
		w.rate = kept*w.rate + (1-kept)*float64(tokens-w.seen)/since.Seconds()
	}
	w.seen, w.updated = tokens, now
	return w.rate
}

func (w *work) looked(hit bool) {
	if hit {
		w.hits.Add(1)
	} else {
		w.misses.Add(1)
	}
}
