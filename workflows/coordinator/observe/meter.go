package observe

import "time"

// Meter is a rate over the last half minute. The zero value is a rate of 0.
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
