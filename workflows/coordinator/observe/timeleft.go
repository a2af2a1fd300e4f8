package observe

import (
	"math"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
)

// estimate estimates the remaining time of a run. All times are in seconds.
type estimate struct {
	*View
	run *graph.Run
	// models holds the keys of the cells' final models. tails holds the expected duration of each tail by its
	// node, 0 without a chain.
	models map[storage.Key]bool
	tails  map[storage.Key]float64
	// trains reports whether a training has not ended.
	trains bool
	// free is the time until a slot is free.
	free float64
	// work is the remaining work in seconds of one slot, and longest the time until the last task ends if every
	// task but the first of a sequence finds a free slot.
	work, longest float64
	// ends caches the end times of unfinished nodes, paces the speeds of chains.
	ends  map[*graph.Node]float64
	paces map[*graph.Chain]pace
}

// secondsLeft estimates the remaining time of a run: the remaining work divided by the slots, or the longest
// sequence of dependent tasks if that takes longer. A sequence of which no task runs begins when a slot is free.
// It returns nil if a training has no timed step. Kinds of audits without a timed one count as 0; after the last
// training, it returns nil while such a kind remains.
func (v *View) secondsLeft(r *graph.Run) *float64 {
	e := &estimate{View: v, run: r, models: map[storage.Key]bool{}, tails: map[storage.Key]float64{}, free: v.slotFree(), ends: map[*graph.Node]float64{}, paces: map[*graph.Chain]pace{}}
	for _, c := range r.Cells {
		e.models[c.Plan.Model.Key] = true
		if tail := c.Plan.Tail; tail.Rounds > 0 {
			e.tails[tail.Node.Key] = 0
			if ch := c.Plan.Chain; ch != nil {
				seconds, _ := median(v.Graph.Chain(ch.Recipe), ch.Join.Kind.Name)
				e.tails[tail.Node.Key] = seconds * float64(tail.Rounds) / float64(max(1, ch.StepRounds))
			}
		}
	}
	if !e.trainings() {
		return nil
	}
	if !e.nodes() && !e.trains {
		return nil
	}
	left := e.longest
	if slots := v.Dispatcher.Fleet.Slots[tasks.Compute]; slots > 0 {
		left = max(left, e.work/float64(slots))
	}
	return &left
}

// slotFree estimates the time until a slot is free, of tasks of any run.
func (v *View) slotFree() float64 {
	free, idle := math.Inf(1), v.Dispatcher.Fleet.Slots[tasks.Compute]
	for a := range v.Graph.Attempts() {
		if a.Worker != "" && a.Class == tasks.Compute {
			seconds, _ := v.taskLeft(a.Task)
			free, idle = min(free, seconds), idle-1
		}
	}
	if idle > 0 || math.IsInf(free, 1) {
		return 0
	}
	return free
}

// trainings adds the remaining time of the trainings, estimated from their finished steps. It returns false if a
// training has no timed step.
func (e *estimate) trainings() bool {
	for recipe, p := range e.run.Plan.Chains {
		ch := e.Graph.Chain(recipe)
		if min(max(ch.At, 0), p.Steps) == p.Steps || ch.Has(p.Steps) {
			continue
		}
		pace := e.pace(ch)
		if pace.joins == 0 || p.Width > 0 && pace.parts == 0 {
			return false
		}
		e.trains = true
		steps := float64(p.Steps - max(ch.At, 0))
		e.work += steps*(float64(p.Width)*pace.part+pace.join) - pace.begun
		e.longest = max(e.longest, e.trained(ch, p.Steps))
	}
	for key := range e.tails {
		if n := e.Graph.Node(key); e.unfinished(n) {
			if !e.timed(n) {
				return false
			}
			e.trains = true
		}
	}
	return true
}

// pace is the speed of a chain.
type pace struct {
	part, join   float64 // median durations of the tasks of a step
	parts, joins int     // numbers of those durations
	begun        float64 // done part of the current step's join
	delay        float64 // time until the current step runs; if it runs, -begun
}

// trained returns the time until a chain reaches a step.
func (e *estimate) trained(ch *graph.Chain, step int) float64 {
	p := e.pace(ch)
	return max(0, float64(max(0, step-max(ch.At, 0)))*(p.part+p.join)+p.delay)
}

func (e *estimate) pace(ch *graph.Chain) pace {
	p, known := e.paces[ch]
	if known {
		return p
	}
	p.part, p.parts = median(ch, ch.Shape.Part.Kind.Name)
	p.join, p.joins = median(ch, ch.Shape.Join.Kind.Name)
	p.begun, p.delay = e.begun(ch), e.free
	if ch.Current != nil && slices.ContainsFunc(ch.Current.Tasks(), e.runs) {
		p.delay = -p.begun
	}
	e.paces[ch] = p
	return p
}

// begun returns the part of the join of a chain's current step that is already done, in seconds.
func (e *estimate) begun(ch *graph.Chain) float64 {
	if ch.Current == nil || !e.runs(ch.Current.Join) {
		return 0
	}
	whole, _ := median(ch, ch.Current.Join.Kind())
	left, _ := e.taskLeft(ch.Current.Join)
	return min(max(0, whole-left), whole)
}

// runs reports whether a worker runs a task.
func (v *View) runs(x *graph.Task) bool {
	return slices.ContainsFunc(v.Graph.AttemptsAt(x), func(a *graph.Attempt) bool { return a.Worker != "" })
}

// median returns the median duration of a task of the chain, in seconds, and the number of durations.
func median(ch *graph.Chain, kind string) (seconds float64, n int) {
	if s := ch.Durations[kind]; s != nil {
		return s.Median()
	}
	return 0, 0
}

// nodes adds the remaining time of the unfinished standing nodes, estimated from nodes of their kind or from their
// progress. It returns false if it can estimate no unfinished node, or if no audit like one of them has ended, because
// that audit may take longer than all other nodes. Other nodes without an estimate take little time.
func (e *estimate) nodes() bool {
	open, counted, ok := 0, 0, true
	for _, n := range e.run.Nodes {
		if !e.unfinished(n) {
			continue
		}
		open++
		if seconds, known := e.nodeLeft(n); known {
			counted++
			e.work += seconds
			e.longest = max(e.longest, e.end(n))
		} else if !e.timed(n) && e.audits(n) {
			ok = false
		}
	}
	return ok && (counted > 0 || open == 0)
}

// timed reports whether the duration of a node can be estimated, although the node may have taken longer.
func (e *estimate) timed(n *graph.Node) bool {
	_, known := e.nodeLeft(n)
	_, timed := e.Graph.Durations(&n.Task).Mean()
	return known || timed || e.tails[n.Key] > 0
}

func (e *estimate) unfinished(n *graph.Node) bool {
	return n.State() != graph.Finished && n.WantedBy(e.run)
}

// audits reports whether a node is an audit: it reads a model of a cell. Sums of audits read no model. The tail
// of a training reads one but is not an audit.
func (e *estimate) audits(n *graph.Node) bool {
	_, tail := e.tails[n.Key]
	return !tail && slices.ContainsFunc(n.Needs, func(d graph.Dependency) bool {
		return d.Checkpoint != nil || e.models[d.Key()]
	})
}

// end returns the time until a node ends, after the unfinished nodes and steps that it needs.
func (e *estimate) end(n *graph.Node) float64 {
	if !e.unfinished(n) {
		return 0
	}
	if known, ok := e.ends[n]; ok {
		return known
	}
	begin := 0.0
	for _, d := range n.Needs {
		switch {
		case d.Available():
		case d.Node != nil:
			begin = max(begin, e.end(d.Node))
		default:
			begin = max(begin, e.trained(d.Checkpoint.Chain, d.Checkpoint.Step))
		}
	}
	if begin == 0 && !e.runs(&n.Task) {
		begin = e.free
	}
	seconds, _ := e.nodeLeft(n)
	e.ends[n] = begin + seconds
	return e.ends[n]
}

// nodeLeft estimates the remaining time of a node. The tail of a training takes as long as the steps before it.
func (e *estimate) nodeLeft(n *graph.Node) (seconds float64, ok bool) {
	if tail := e.tails[n.Key]; tail > 0 {
		return e.leftOf(&n.Task, tail)
	}
	return e.taskLeft(&n.Task)
}

// taskLeft estimates the remaining time of a task from its progress or from the mean duration of its siblings. The
// mean, unlike the median, predicts the sum of the widely differing durations of audits.
func (v *View) taskLeft(x *graph.Task) (seconds float64, ok bool) {
	mean, _ := v.Graph.Durations(x).Mean()
	return v.leftOf(x, mean)
}

// leftOf estimates the remaining time of a task from its progress or from its expected duration. It returns false
// if the task has taken longer than expected, or if nothing is expected.
func (v *View) leftOf(x *graph.Task, expected float64) (seconds float64, ok bool) {
	for _, a := range v.Graph.AttemptsAt(x) {
		if a.Progress.Done > 0 && a.Progress.Total >= a.Progress.Done {
			return a.Running * float64(a.Progress.Total-a.Progress.Done) / float64(a.Progress.Done), true
		}
		expected -= a.Running
	}
	return max(0, expected), expected > 0
}
