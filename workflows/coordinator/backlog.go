package coordinator

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"coalmine/tasks"
)

// backlog is what a run has ready for one class, the most urgent first. Entries
// are not removed when a task is no longer ready; whoever takes one looks.
type backlog []entry

type entry struct {
	task      *task
	urgent    bool
	rank, seq int
}

func (b backlog) Len() int      { return len(b) }
func (b backlog) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b backlog) Less(i, j int) bool {
	x, y := b[i], b[j]
	if x.urgent != y.urgent {
		return x.urgent
	}
	return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.seq, y.seq)) < 0
}
func (b *backlog) Push(x any) { *b = append(*b, x.(entry)) }
func (b *backlog) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = entry{}
	*b = old[:len(old)-1]
	return last
}

// ready puts a task into the backlog of every run that wants it.
func (t *term) ready(x *task) {
	t.move(x, becomeReady)
	t.readySeq++
	x.seq = t.readySeq
	t.offer(x)
	t.changed = true
}

// offer shows a ready task to the runs that want it.
func (t *term) offer(x *task) {
	class := t.classOf(x)
	for _, r := range x.wants {
		if r.backlog == nil {
			r.backlog = make(map[tasks.Class]*backlog)
		}
		if r.backlog[class] == nil {
			r.backlog[class] = new(backlog)
		}
		heap.Push(r.backlog[class], entry{x, x.urgent, x.rank, x.seq})
	}
}

// classOf is the queue that a task belongs to.
func (t *term) classOf(x *task) tasks.Class {
	if kind, ok := t.Registry[x.spec.Kind]; ok {
		return kind.Class
	}
	return tasks.Compute
}

// perSlot is how many attempts are sent for each live slot: one that runs, and
// one at hand when it ends.
const perSlot = 2

// dispatch sends as much as the live workers can take.
func (t *term) dispatch() {
	if !t.queueDown.since.IsZero() {
		return
	}
	for _, class := range t.classesServed() {
		room := t.room(class)
		for ; room > 0; room-- {
			x, r := t.next(class)
			if x == nil {
				break
			}
			t.launch(x, r)
		}
	}
	for _, y := range t.yielded {
		heap.Push(y.backlog, y.entry)
	}
	t.yielded = nil
}

func (t *term) classesServed() []tasks.Class {
	var classes []tasks.Class
	for class := range t.slots {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	return classes
}

// room is how many more attempts of a class may be sent.
func (t *term) room(class tasks.Class) int {
	limit := perSlot * t.slots[class]
	if most, ok := t.Limits[class]; ok {
		limit = min(limit, most)
	}
	return limit - t.inFlight[class]
}

// next takes the task to send next: of the run with the highest priority, among
// equals the one with the fewest attempts in flight, among those the one that
// was served the longest ago. A long task may yield; see sharing.go.
func (t *term) next(class tasks.Class) (*task, *run) {
	var best *run
	for _, r := range t.order {
		if r.active() && t.peek(r, class) && (best == nil || r.goesBefore(best)) {
			best = r
		}
	}
	if best == nil {
		return nil, nil
	}
	x := heap.Pop(best.backlog[class]).(entry).task
	return x, best
}

func (r *run) goesBefore(other *run) bool {
	return cmp.Or(
		-cmp.Compare(r.state.Priority, other.state.Priority),
		cmp.Compare(r.inFlight, other.inFlight),
		cmp.Compare(r.lastServed, other.lastServed)) < 0
}

// peek reports whether a run has a task that can be sent, after removing the
// entries that are out of date.
func (t *term) peek(r *run, class tasks.Class) bool {
	b := r.backlog[class]
	for b != nil && len(*b) > 0 {
		e := (*b)[0]
		if e.task.state == ready && e.seq == e.task.seq && slices.Contains(e.task.wants, r) && t.runnable(e.task) {
			if !t.yields(e.task, r) {
				return true
			}
			t.yielded = append(t.yielded, yielded{b, e})
		}
		heap.Pop(b)
	}
	return false
}

// runnable reports whether live workers can run the task. One that they cannot is
// set aside until they change.
func (t *term) runnable(x *task) bool {
	if t.lacking(x) == "" {
		return true
	}
	t.move(x, park)
	t.parked = append(t.parked, x)
	t.changed = true
	return false
}

// lacking says what the live workers lack to run a task, "" if nothing.
func (t *term) lacking(x *task) string {
	if !t.kinds[advertised(x)] {
		return "no live worker knows " + advertised(x)
	}
	if key := x.spec.SecretKey; key != "" && !t.keys[key] {
		return fmt.Sprintf("no live worker holds the secret key %s: start them with --secret-key", key)
	}
	return ""
}

// advertised is how workers name the task's kind and version.
func advertised(x *task) string { return fmt.Sprintf("%s@%d", x.spec.Kind, x.spec.Version) }

// unpark gives the tasks that were set aside another chance.
func (t *term) unpark() {
	parkedBefore := t.parked
	t.parked = nil
	for _, x := range parkedBefore {
		if x.state == parked {
			t.move(x, unpark)
			x.owner.requeue(t, x)
		}
	}
}
