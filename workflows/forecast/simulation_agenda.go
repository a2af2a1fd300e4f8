package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/runs/availability"
)

// event is the end of an attempt.
type event struct {
	at      float64 // seconds since the start
	attempt *graph.Attempt
	seconds float64
}

// agenda is a heap of future events; attempts that end at the same time end in the order of their
// ids.
type agenda []event

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].attempt.ID, a[j].attempt.ID)) < 0
}
func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

func sorted(found availability.Chain) availability.Chain {
	slices.Sort(found.Checkpoints)
	return found
}

// duration converts seconds, limited to the longest duration.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Min(seconds*float64(time.Second), math.MaxInt64/2))
}
