package dispatch

import (
	"cmp"
	"math"
	"slices"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
)

// Trainings share slots by time, not by tasks. A task cannot be interrupted, so a training of long tasks
// that took every free slot would make a training of short tasks wait for minutes after each task: a
// hundred federated rounds fit into one segment of SGD. So a long task yields while trainings of short
// tasks are behind, and leaves them their share of the slots.

// share is a training's use of the slots so far.
type share struct {
	// used is the time of its tasks in seconds, since it began to share slots with others.
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

// resetShares forgets trainings that have ended, and marks those without work.
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

// beginSharing raises the used time of a training that begins, or continues after a pause, to at least
// the smallest of the other trainings: time without work gives no claim.
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

// yields reports whether a task of a run leaves the next slot to other trainings.
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

// rivals returns the trainings to which a training yields: those with less used time
// and much shorter tasks. room is the number of tasks that they can run at once;
// others counts the other contending trainings, including ch.
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

// taken returns the number of attempts of a class in flight that are not of the trainings.
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

// taskLength returns the duration of the tasks of a training, in seconds; infinite while unknown.
func taskLength(ch *graph.Chain) float64 {
	longest := 0.0
	for _, s := range ch.Durations {
		median, n := s.Median()
		if n == 0 {
			return math.Inf(1)
		}
		longest = max(longest, median)
	}
	return cmp.Or(longest, math.Inf(1))
}
