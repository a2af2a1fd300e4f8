package graph

import (
	"slices"

	"coalmine/workflows/coordinator/policy"
)

// Samples are the last durations of one kind of task, in seconds. The zero value is empty.
type Samples struct {
	last [32]float64
	n    int
	// middle is the median, unless stale is set.
	middle float64
	stale  bool
}

// Add adds a duration.
func (s *Samples) Add(seconds float64) {
	s.last[s.n%len(s.last)] = seconds
	s.n++
	s.stale = true
}

// Median also returns the number of durations.
func (s *Samples) Median() (seconds float64, n int) {
	n = min(s.n, len(s.last))
	if s.stale {
		sorted := s.last
		slices.Sort(sorted[:n])
		s.middle, s.stale = sorted[n/2], false
	}
	return s.middle, n
}

// Mean returns the mean of the durations, false if there are none.
func (s *Samples) Mean() (seconds float64, ok bool) {
	n := min(s.n, len(s.last))
	for _, d := range s.last[:n] {
		seconds += d / float64(n)
	}
	return seconds, n > 0
}

// Durations returns the durations of a task's siblings: the tasks of the same
// kind in its chain, or all standing nodes of its kind.
func (g *Graph) Durations(x *Task) *Samples {
	durations := g.durations
	if ch := x.Chain(); ch != nil {
		durations = ch.Durations
	}
	if durations[x.Kind()] == nil {
		durations[x.Kind()] = &Samples{}
	}
	return durations[x.Kind()]
}

// Straggles reports whether an attempt takes far longer than its siblings did, and their median
// in seconds. Nodes with commands of experiments have no siblings: the duration of one does not
// predict another, and a second attempt would run the command twice at once.
func (g *Graph) Straggles(a *Attempt) (median float64, straggles bool) {
	if a.Task.Chain() == nil && a.Task.traits.Value().terms != "" {
		return 0, false
	}
	median, siblings := g.Durations(a.Task).Median()
	return median, a.Worker != "" && policy.Straggles(a.Running, median, siblings)
}
