package coordinator

import (
	"slices"
	"time"
)

// samples are the last durations of one kind of task, in seconds.
type samples struct {
	last [32]float64
	n    int
	// middle is the median, unless stale says that it must be found again.
	middle float64
	stale  bool
}

func (s *samples) add(seconds float64) {
	s.last[s.n%len(s.last)] = seconds
	s.n++
	s.stale = true
}

// median also returns of how many durations it is.
func (s *samples) median() (seconds float64, of int) {
	of = min(s.n, len(s.last))
	if s.stale {
		sorted := s.last
		slices.Sort(sorted[:of])
		s.middle, s.stale = sorted[of/2], false
	}
	return s.middle, of
}

// mean is that of the durations, false if there are none.
func (s *samples) mean() (seconds float64, ok bool) {
	of := min(s.n, len(s.last))
	for _, d := range s.last[:of] {
		seconds += d / float64(of)
	}
	return seconds, of > 0
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
