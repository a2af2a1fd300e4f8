package coordinator

import (
	"slices"
	"time"
)

// samples are the last durations of one kind of task, in seconds.
type samples struct {
	last [32]float64
	n    int
}

func (s *samples) add(seconds float64) {
	s.last[s.n%len(s.last)] = seconds
	s.n++
}

// median also returns of how many durations it is.
func (s *samples) median() (seconds float64, of int) {
	of = min(s.n, len(s.last))
	if of == 0 {
		return 0, 0
	}
	sorted := s.last
	slices.Sort(sorted[:of])
	return sorted[of/2], of
}

// meter is a rate over the last half minute.
type meter struct {
	buckets [meterBuckets]int64
	newest  int64 // number of the newest bucket
	first   time.Time
}

const (
	meterBuckets = 30
	meterBucket  = time.Second
)

func (m *meter) add(now time.Time, n int64) {
	if n == 0 {
		return
	}
	if m.first.IsZero() {
		m.first = now
	}
	m.turn(now)
	m.buckets[m.newest%meterBuckets] += n
}

// turn clears the buckets that have been skipped.
func (m *meter) turn(now time.Time) {
	bucket := now.UnixNano() / int64(meterBucket)
	for i := max(m.newest+1, bucket-meterBuckets+1); i <= bucket; i++ {
		m.buckets[i%meterBuckets] = 0
	}
	m.newest = max(m.newest, bucket)
}

// rate is per second.
func (m *meter) rate(now time.Time) float64 {
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
