package dispatch

import (
	"math"
	"slices"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
)

// Trainings share slots by time, not by tasks. A task cannot be interrupted, so a
// training of long tasks that takes every slot which falls free has one of short
// tasks wait for minutes after each of its own: a hundred federated rounds fit into
// one segment of SGD. So a long task yields while trainings of short ones are
// behind, and leaves them as many slots as are theirs by their number.

// share is a training's past use of the slots.
type share struct {
	// used is the time of its tasks in seconds, since it began to share slots with
	// others.
	used float64
	// sharing reports that it has begun and still has work.
	sharing bool
}

func (d *Dispatcher) shareOf(ch *graph.Chain) *share {
	if d.shares[ch] == nil {
		d.shares[ch] = &share{}
	}
	return d.shares[ch]
}

// resetShares forgets trainings that are no more, and notes which of the others have
// nothing to do.
func (d *Dispatcher) resetShares() {
	for ch, s := range d.shares {
		switch {
		case d.graph.Chain(ch.Recipe) != ch:
			delete(d.shares, ch)
		case !ch.Wanted():
			s.sharing = false
		}
	}
}

// UseTime charges a task's training for an attempt.
func (d *Dispatcher) UseTime(x *graph.Task, seconds float64) {
	if ch := x.Chain(); ch != nil {
		d.shareOf(ch).used += seconds
	}
}

// beginSharing raises the used time of a training that begins, or continues after a
// pause, to at least the smallest of the others: time without work gives no claim.
func (d *Dispatcher) beginSharing(ch *graph.Chain) {
	if ch == nil || d.shareOf(ch).sharing {
		return
	}
	least := math.Inf(1)
	for other, s := range d.shares {
		if s.sharing && other.Current != nil {
			least = min(least, s.used)
		}
	}
	s := d.shareOf(ch)
	s.sharing = true
	if !math.IsInf(least, 1) {
		s.used = max(s.used, least)
	}
}

// yields reports whether a task of a run leaves the next slot to others.
func (d *Dispatcher) yields(x *graph.Task, r *graph.Run) bool {
	ch := x.Chain()
	if ch == nil || x.Urgent {
		return false
	}
	length, _ := d.graph.Durations(x).Median()
	if !policy.IsLong(length) {
		return false
	}
	class := d.ClassOf(x)
	quick, room, others := d.rivals(ch, length, class, r.State.Priority)
	if len(quick) == 0 {
		return false
	}
	slots := d.Fleet.Slots[class]
	theirs := min(policy.Share(slots, len(quick), others), room)
	return d.taken(class, quick) >= slots-theirs
}

// rivals are the trainings that contend with one for slots: those that have had less
// time than it and whose tasks are so short that it yields to them, with the number of
// tasks that they can have at work at once; and the number of others, itself included.
func (d *Dispatcher) rivals(ch *graph.Chain, length float64, class tasks.Class, priority int) (quick map[*graph.Chain]bool, room, others int) {
	quick = make(map[*graph.Chain]bool)
	others = 1
	for other, s := range d.shares {
		switch {
		case other == ch || !d.contends(other, class, priority):
		case s.used < d.shareOf(ch).used && policy.Yields(length, taskLength(other)):
			quick[other] = true
			room += max(1, other.Shape.Width)
		default:
			others++
		}
	}
	return quick, room, others
}

// taken returns the number of attempts of a class in flight that do not belong to the
// trainings.
func (d *Dispatcher) taken(class tasks.Class, trainings map[*graph.Chain]bool) int {
	taken := 0
	for a := range d.graph.Attempts() {
		if a.Class == class && !trainings[a.Task.Chain()] {
			taken++
		}
	}
	return taken
}

// contends reports whether a training has begun, has work for slots of a class now,
// and has at least the given priority.
func (d *Dispatcher) contends(ch *graph.Chain, class tasks.Class, priority int) bool {
	if !d.shareOf(ch).sharing || ch.Current == nil {
		return false
	}
	return slices.ContainsFunc(ch.Current.Tasks(), func(x *graph.Task) bool {
		wanted := slices.ContainsFunc(x.Wants, func(r *graph.Run) bool { return r.State.Priority >= priority })
		return wanted && (x.State() == graph.Ready || x.State() == graph.InFlight) && d.ClassOf(x) == class
	})
}

// taskLength is how long the tasks of a training take, in seconds; infinite as long
// as none is known.
func taskLength(ch *graph.Chain) float64 {
	longest := 0.0
	for _, s := range ch.Durations {
		median, of := s.Median()
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
