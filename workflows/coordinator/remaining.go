package coordinator

import (
	"slices"

	"coalmine/tasks"
)

// secondsLeft estimates the time that the run takes yet: the work that is left, shared
// by all slots, or the longest part of it that no slots can share, if that takes
// longer. It is nil while some training, or all there is, cannot be judged.
func (t *term) secondsLeft(r *run) *float64 {
	trainings, ok := t.trainingsLeft(r)
	if !ok {
		return nil
	}
	nodes, ok := t.nodesLeft(r)
	if !ok && trainings.work == 0 {
		return nil
	}
	left := max(trainings.longest, nodes.longest)
	if slots := t.slots[tasks.Compute]; slots > 0 {
		left = max(left, (trainings.work+nodes.work)/float64(slots))
	}
	return &left
}

// remainder is work in seconds of one slot, and the longest part of it whose tasks
// follow one another.
type remainder struct{ work, longest float64 }

func (l *remainder) add(work, longest float64) {
	l.work += work
	l.longest = max(l.longest, longest)
}

// trainingsLeft is what the trainings take by the steps so far; false while no step of
// some training has been seen.
func (t *term) trainingsLeft(r *run) (left remainder, ok bool) {
	for recipe, p := range r.plan.Chains {
		ch := t.chains[recipe]
		steps := float64(p.Steps - min(max(ch.at, 0), p.Steps))
		if steps == 0 || ch.checkpointAt(p.Steps).available {
			continue
		}
		part, parts := ch.median(p.Part.Kind.Name)
		join, joins := ch.median(p.Join.Kind.Name)
		if joins == 0 || p.Width > 0 && parts == 0 {
			return left, false
		}
		left.add(steps*(float64(p.Width)*part+join), steps*(part+join))
	}
	return left, true
}

// median is how long a task of the chain takes, in seconds, and of how many.
func (ch *chain) median(kind string) (seconds float64, of int) {
	if s := ch.durations[kind]; s != nil {
		return s.median()
	}
	return 0, 0
}

// nodesLeft is what the run's standing nodes take that are not done, as far as there
// were others of their kind, or those at work have told how far they are; false if
// there are some and none can be judged.
func (t *term) nodesLeft(r *run) (left remainder, ok bool) {
	open, known := 0, 0
	for key := range r.plan.Nodes {
		x := t.nodes[key].task
		if x.state == finished || !slices.Contains(x.wants, r) {
			continue
		}
		open++
		if seconds, ok := t.taskLeft(x); ok {
			known++
			left.add(seconds, seconds)
		}
	}
	return left, known > 0 || open == 0
}

// taskLeft is how long a task takes yet: by its own progress, or else as long as its
// siblings took on average. Audits of one model differ by far, so that a median would
// say little of their sum.
func (t *term) taskLeft(x *task) (seconds float64, ok bool) {
	mean, ok := t.samplesOf(x).mean()
	seconds = mean
	for _, a := range x.attempts {
		if a.progress.Done > 0 && a.progress.Total >= a.progress.Done {
			return a.running * float64(a.progress.Total-a.progress.Done) / float64(a.progress.Done), true
		}
		seconds = max(0, mean-a.running)
	}
	return seconds, ok
}
