package workers

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/queue"
)

// work counts the tasks of a worker, for its heartbeats. The zero value has done nothing.
type work struct {
	ended, tokens, hits, misses atomic.Int64

	mu      sync.Mutex
	rate    float64   // recent tokens a second
	seen    int64     // tokens when the rate was last computed
	updated time.Time // time of that computation
}

// lately is the age at which a rate counts half in the mean.
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
