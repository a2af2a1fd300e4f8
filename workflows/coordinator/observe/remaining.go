package observe

import (
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
)

// secondsLeft estimates the remaining time of a run: its remaining work shared by all
// slots, or the longest sequential part if that takes longer. It is nil if some
// training, or everything, cannot be estimated.
func (v *View) secondsLeft(r *graph.Run) *float64 {
	trainings, ok := v.trainingsLeft(r)
	if !ok {
		return nil
	}
	nodes, ok := v.nodesLeft(r)
	if !ok && trainings.work == 0 {
		return nil
	}
	left := max(trainings.longest, nodes.longest)
	if slots := v.Dispatcher.Fleet.Slots[tasks.Compute]; slots > 0 {
		left = max(left, (trainings.work+nodes.work)/float64(slots))
	}
	return &left
}

// remainder is remaining work in seconds of one slot, and its longest sequential
// part.
type remainder struct{ work, longest float64 }

func (l *remainder) add(work, longest float64) {
	l.work += work
	l.longest = max(l.longest, longest)
}

// trainingsLeft estimates the remaining time of the trainings from their steps so
// far; false if a training has no finished step.
func (v *View) trainingsLeft(r *graph.Run) (left remainder, ok bool) {
	for recipe, p := range r.Plan.Chains {
		ch := v.Graph.Chain(recipe)
		steps := float64(p.Steps - min(max(ch.At, 0), p.Steps))
		if steps == 0 || ch.Has(p.Steps) {
			continue
		}
		part, parts := median(ch, p.Part.Kind.Name)
		join, joins := median(ch, p.Join.Kind.Name)
		if joins == 0 || p.Width > 0 && parts == 0 {
			return left, false
		}
		left.add(steps*(float64(p.Width)*part+join), steps*(part+join))
	}
	return left, true
}

// median returns the median duration of a task of the chain, in seconds, and
// the number of durations.
func median(ch *graph.Chain, kind string) (seconds float64, n int) {
	if s := ch.Durations[kind]; s != nil {
		return s.Median()
	}
	return 0, 0
}

// nodesLeft estimates the remaining time of the run's unfinished standing nodes,
// from others of their kind or their reported progress; false if no unfinished node
// can be estimated.
func (v *View) nodesLeft(r *graph.Run) (left remainder, ok bool) {
	open, known := 0, 0
	for _, n := range r.Nodes {
		x := &n.Task
		if x.State() == graph.Finished || !x.WantedBy(r) {
			continue
		}
		open++
		if seconds, ok := v.taskLeft(x); ok {
			known++
			left.add(seconds, seconds)
		}
	}
	return left, known > 0 || open == 0
}

// taskLeft estimates the remaining time of a task from its progress, else from the mean duration of its siblings; it is unknown for a
// task that takes longer. The durations of audits differ widely, so the median would not predict their sum.
func (v *View) taskLeft(x *graph.Task) (seconds float64, ok bool) {
	mean, ok := v.Graph.Durations(x).Mean()
	seconds = mean
	for _, a := range v.Graph.AttemptsAt(x) {
		if a.Progress.Done > 0 && a.Progress.Total >= a.Progress.Done {
			return a.Running * float64(a.Progress.Total-a.Progress.Done) / float64(a.Progress.Done), true
		}
		seconds = mean - a.Running
	}
	return seconds, ok && seconds > 0
}
