package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
)

// Trainings share slots by time, not by tasks. A task cannot be interrupted, so a training of long tasks
// that took every free slot would make a training of short tasks wait for minutes after each task: one
// segment of SGD lasts as long as a hundred federated rounds. So a long task yields while trainings of
// short tasks are behind, and leaves them their share of the slots.

// share is a training's use of the slots so far.
type share struct {
	// used is the time of its tasks in seconds, since it began to share slots with others.
	used float64
	// sharing reports whether it has begun and still has work.
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

// rivals returns the trainings to which a training yields: those with less used time and much shorter tasks. room is
// the number of tasks that they can run at once; others is the number of the other contending trainings, including
// ch.
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

// Fleet describes the live workers. The zero value is an empty fleet.
type Fleet struct {
	// Workers are the live workers, including draining ones.
	Workers []queue.Worker
	// Slots counts the slots of workers that take tasks, by class.
	Slots map[tasks.Class]int
	// Useless holds the reasons, by worker id, why workers can run no task.
	Useless map[string]string

	kinds map[string]bool // supported kinds, with versions
	keys  map[string]bool // available secret keys, by fingerprint
}

// newFleet returns the fleet of workers that are not excluded.
func newFleet(workers []queue.Worker, excluded map[string]string) Fleet {
	f := Fleet{
		Workers: workers, Slots: make(map[tasks.Class]int), Useless: make(map[string]string),
		kinds: make(map[string]bool), keys: make(map[string]bool),
	}
	for _, w := range workers {
		if why := cmp.Or(excluded[w.ID], unreadableFormat(w, attempts.Format)); why != "" {
			f.Useless[w.ID] = why
			continue
		}
		if w.Draining {
			continue
		}
		for _, class := range w.Classes {
			f.Slots[tasks.Class(class)] += w.SlotsOf(class)
		}
		for _, kind := range w.Kinds {
			f.kinds[kind] = true
		}
		for _, key := range w.Keys {
			f.keys[key] = true
		}
	}
	return f
}

// unreadableFormat explains why a worker's build cannot read attempts of a format; "" if it can or its
// format is unknown.
func unreadableFormat(w queue.Worker, format int) string {
	switch {
	case w.Unreadable:
		return "this coordinator cannot read its heartbeats"
	case w.Format != 0 && w.Format < format:
		return fmt.Sprintf("it reads attempts up to format %d, but this coordinator writes format %d", w.Format, format)
	}
	return ""
}

// Name returns the name of a worker with its build.
func Name(w *queue.Worker) string {
	return fmt.Sprintf("worker %s (coalmine %s)", w.ID, cmp.Or(w.Build, "of an unknown version"))
}

// has reports whether a worker lives.
func (f *Fleet) has(id string) bool {
	return slices.ContainsFunc(f.Workers, func(w queue.Worker) bool { return w.ID == id })
}

// maxNamed bounds the workers that a message names.
const maxNamed = 3

// Incapable names the workers that cannot help, with their reasons. why returns the reason of a
// worker, "" if it can help.
func (f *Fleet) Incapable(why func(*queue.Worker) string) string {
	var all []string
	for i := range f.Workers {
		if reason := why(&f.Workers[i]); reason != "" {
			all = append(all, Name(&f.Workers[i])+" cannot help: "+reason)
		}
	}
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("%d more cannot help either", more))
	}
	return strings.Join(all, "; ")
}

// Unknown explains why a worker cannot run a kind of task, "" if it can.
func (f *Fleet) Unknown(w *queue.Worker, kind string, version int) string {
	wanted := fmt.Sprintf("%s@%d", kind, version)
	if why := f.Useless[w.ID]; why != "" || slices.Contains(w.Kinds, wanted) {
		return why
	}
	for _, known := range w.Kinds {
		if strings.HasPrefix(known, kind+"@") {
			return fmt.Sprintf("it supports %s but not %s", known, wanted)
		}
	}
	return "it does not support " + wanted
}

// offersAs reports whether another fleet offers the same slots, useless workers, kinds and keys.
func (f *Fleet) offersAs(other *Fleet) bool {
	return maps.Equal(f.Slots, other.Slots) && maps.Equal(f.Useless, other.Useless) && maps.Equal(f.kinds, other.kinds) && maps.Equal(f.keys, other.keys)
}

// Knows reports whether some worker supports a task's kind in its version.
func (f *Fleet) Knows(x *graph.Task) bool { return f.kinds[advertised(x)] }

// Serves reports whether some worker takes tasks of the task's class.
func (f *Fleet) Serves(x *graph.Task) bool { return x.Class() == "" || f.Slots[x.Class()] > 0 }

// MissingCapability returns the capability that a task needs and all workers lack, or "".
func (f *Fleet) MissingCapability(x *graph.Task) string {
	if !f.Serves(x) {
		return "no live worker " + unserved(x.Class())
	}
	if !f.Knows(x) {
		text := "no live worker supports " + advertised(x)
		if others := f.Incapable(func(w *queue.Worker) string { return f.Unknown(w, x.Kind(), x.Version()) }); others != "" {
			text += ": " + others
		}
		return text
	}
	if key := x.SecretKey(); key != "" && !f.keys[key] {
		return fmt.Sprintf("no live worker has the secret key %s: start one with --secret-key", key)
	}
	return ""
}

// unserved returns the end of a message that no worker serves the class, with the remedy.
func unserved(class tasks.Class) string {
	switch class {
	case tasks.Commands:
		return "runs commands of experiments: start one with --allow-commands"
	case tasks.GPU:
		return "runs commands of experiments on a gpu: start one with --class gpu --allow-commands"
	case tasks.Compute:
	}
	return fmt.Sprintf("takes tasks of the class %s: start one with --class %s", class, class)
}

// advertised returns the task's kind and version as workers name them.
func advertised(x *graph.Task) string { return fmt.Sprintf("%s@%d", x.Kind(), x.Version()) }
