package coordinator

import (
	"math"
	"slices"

	"coalmine/tasks"
)

// Trainings share slots by time, not by tasks. A task cannot be interrupted, so a
// training of long tasks that takes every slot which falls free has one of short
// tasks wait for minutes after each of its own: a hundred federated rounds fit into
// one segment of SGD. So a long task yields while trainings of short ones are
// behind, and leaves them as many slots as are theirs by their number.
//
// Which task runs when changes no result, only when it is there.

const (
	// leastLong is the least length of a task that yields, in seconds. Shorter ones
	// hold nobody up.
	leastLong = 1
	// shorter is by how much the tasks must be shorter to which one yields.
	shorter = 2
)

// training is the chain whose step a task belongs to, nil for a standing node.
func (x *task) training() *chain {
	if s, ok := x.owner.(*step); ok {
		return s.chain
	}
	return nil
}

// useTime charges a training for an attempt.
func (x *task) useTime(seconds float64) {
	if ch := x.training(); ch != nil {
		ch.used += seconds
	}
}

// beginSharing has a training that begins, or goes on after a pause, stand at least
// where the one stands that has had the least: time in which it did not want to run
// is no claim.
func (t *term) beginSharing(ch *chain) {
	if ch == nil || ch.sharing {
		return
	}
	least := math.Inf(1)
	for _, other := range t.chains {
		if other.sharing && other.current != nil {
			least = min(least, other.used)
		}
	}
	ch.sharing = true
	if !math.IsInf(least, 1) {
		ch.used = max(ch.used, least)
	}
}

// yields reports whether a task of a run leaves the next slot to others.
func (t *term) yields(x *task, r *run) bool {
	ch := x.training()
	if ch == nil || x.urgent {
		return false
	}
	length, _ := t.samplesOf(x).median()
	if length < leastLong {
		return false
	}
	class := t.classOf(x)
	quick, room, others := make(map[*chain]bool), 0, 0
	for _, other := range t.chains {
		switch {
		case other != ch && !other.contends(t, class, r.state.Priority):
		case other != ch && other.used < ch.used && other.taskLength()*shorter <= length:
			quick[other] = true
			room += max(1, other.shape.Width)
		default:
			others++
		}
	}
	if len(quick) == 0 {
		return false
	}
	slots := t.slots[class]
	theirs := min((slots*len(quick)+len(quick)+others-1)/(len(quick)+others), room) // rounded up
	taken := 0
	for _, a := range t.attempts {
		if a.class == class && !quick[a.task.training()] {
			taken++
		}
	}
	return taken >= slots-theirs
}

// contends reports whether a training has begun, has work for slots of a class now,
// and is wanted at least as much as a priority says.
func (ch *chain) contends(t *term, class tasks.Class, priority int) bool {
	if !ch.sharing || ch.current == nil {
		return false
	}
	return slices.ContainsFunc(ch.current.tasks(), func(x *task) bool {
		wanted := slices.ContainsFunc(x.wants, func(r *run) bool { return r.state.Priority >= priority })
		return wanted && (x.state == ready || x.state == inFlight) && t.classOf(x) == class
	})
}

// taskLength is how long the tasks of a training take, in seconds; infinite as long
// as none is known.
func (ch *chain) taskLength() float64 {
	longest := 0.0
	for _, s := range ch.durations {
		median, of := s.median()
		if of == 0 {
			return math.Inf(1)
		}
		longest = max(longest, median)
	}
	if longest == 0 {
		return math.Inf(1)
	}
	return longest
}

// yielded is a place in the backlog of a run of which the task has yielded.
type yielded struct {
	backlog *backlog
	entry   entry
}
