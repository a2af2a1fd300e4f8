// Package dispatch decides which of the ready tasks goes next, and how many are sent at all: about two
// for each live slot (policy.PerSlot). It holds the backlogs; the graph holds the sent attempts.
//
// In each class, the run with the highest priority goes first; among equals, the run
// with the fewest attempts in flight; then the one that was served the longest ago.
// Within a run urgent tasks go first, then cells in the order of the grid. A long task
// of a training may yield to trainings with shorter tasks; see shares.go.
//
// The order of tasks does not affect results, only the time at which they are available.
package dispatch

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
)

// Dispatcher holds the ready tasks. Like the graph it belongs to one goroutine.
type Dispatcher struct {
	// Fleet describes the live workers.
	Fleet Fleet
	// Limits bound the attempts of a class that are in flight at one time.
	Limits map[tasks.Class]int

	graph    *graph.Graph
	registry tasks.Registry
	lines    map[*graph.Run]*line
	shares   map[*graph.Chain]*share
	parked   []*graph.Task
	excluded map[string]string // reasons of workers that cannot help, by id
	served   int               // number of attempts
}

// line holds the ready tasks of a run.
type line struct {
	backlogs map[tasks.Class]*backlog
	served   int // when the run was served last
}

// New returns a dispatcher of a graph's tasks, without workers. Kinds missing from the
// registry belong to tasks.Compute.
func New(g *graph.Graph, registry tasks.Registry) *Dispatcher {
	return &Dispatcher{
		graph: g, registry: registry,
		lines: make(map[*graph.Run]*line), shares: make(map[*graph.Chain]*share), excluded: make(map[string]string),
	}
}

// ClassOf returns the class of the queue that a task belongs to.
func (d *Dispatcher) ClassOf(x *graph.Task) tasks.Class {
	if class := x.Class(); class != "" {
		return class
	}
	if kind, ok := d.registry[x.Kind()]; ok {
		return kind.Class
	}
	return tasks.Compute
}

// SetWorkers sets the live workers. If their capabilities have changed, it unparks
// the parked tasks and returns true.
func (d *Dispatcher) SetWorkers(workers []queue.Worker) (changed bool) {
	before := d.Fleet
	d.Fleet = newFleet(workers, d.excluded)
	maps.DeleteFunc(d.excluded, func(id string, _ string) bool { return !d.Fleet.has(id) })
	if d.Fleet.offersAs(&before) {
		return false
	}
	parked := d.parked
	d.parked = nil
	for _, x := range parked {
		d.graph.Unpark(x)
	}
	return true
}

// Exclude excludes a worker that can run no task, for as long as it lives. It reports whether the worker
// was not excluded before.
func (d *Dispatcher) Exclude(worker, why string) (changed bool) {
	if _, known := d.excluded[worker]; known || !d.Fleet.has(worker) {
		return false
	}
	d.excluded[worker] = why
	d.SetWorkers(d.Fleet.Workers)
	return true
}

// Offer enters a ready task for all runs that want it.
func (d *Dispatcher) Offer(x *graph.Task) {
	class := d.ClassOf(x)
	for _, r := range x.Wants {
		l := d.lineOf(r)
		if l.backlogs[class] == nil {
			l.backlogs[class] = new(backlog)
		}
		l.backlogs[class].add(entryOf(x))
	}
}

func (d *Dispatcher) lineOf(r *graph.Run) *line {
	if d.lines[r] == nil {
		d.lines[r] = &line{backlogs: make(map[tasks.Class]*backlog)}
	}
	return d.lines[r]
}

// Reset forgets all offers after a recount of the wants; every ready task is offered again.
func (d *Dispatcher) Reset() {
	exists := make(map[*graph.Run]bool)
	for _, r := range d.graph.Runs() {
		exists[r] = true
	}
	for r, l := range d.lines {
		clear(l.backlogs)
		if !exists[r] {
			delete(d.lines, r)
		}
	}
	d.resetShares()
}

// Dispatch launches as many tasks as the live workers can take.
func (d *Dispatcher) Dispatch(launch func(*graph.Task, *graph.Run)) {
	var yielded []yielded
	for _, class := range slices.Sorted(maps.Keys(d.Fleet.Slots)) {
		for range d.room(class) {
			x, r := d.next(class, &yielded)
			if x == nil {
				break
			}
			launch(x, r)
		}
	}
	for _, y := range yielded {
		y.backlog.add(y.entry)
	}
}

// Launched records that an attempt at a task was launched, charged to a run.
func (d *Dispatcher) Launched(x *graph.Task, r *graph.Run) {
	d.beginSharing(x.Chain())
	d.served++
	d.lineOf(r).served = d.served
}

// room returns the number of further attempts of a class that may be sent.
func (d *Dispatcher) room(class tasks.Class) int {
	limit := policy.PerSlot * d.Fleet.Slots[class]
	if most, ok := d.Limits[class]; ok {
		limit = min(limit, most)
	}
	return limit - d.graph.InFlight(class)
}

// next removes and returns the task to send next, and the run to which it is
// charged; nil if there is no such task.
func (d *Dispatcher) next(class tasks.Class, yielded *[]yielded) (*graph.Task, *graph.Run) {
	var best *graph.Run
	for _, r := range d.graph.Runs() {
		if r.Active() && d.hasNext(r, class, yielded) && (best == nil || d.goesBefore(r, best)) {
			best = r
		}
	}
	if best == nil {
		return nil, nil
	}
	return d.lineOf(best).backlogs[class].take().task, best
}

func (d *Dispatcher) goesBefore(r, other *graph.Run) bool {
	return cmp.Or(
		-cmp.Compare(r.State.Priority, other.State.Priority),
		cmp.Compare(r.InFlight, other.InFlight),
		cmp.Compare(d.lineOf(r).served, d.lineOf(other).served)) < 0
}

// hasNext reports whether a run has a task that can be sent. It removes entries
// before that task that are stale, cannot run, or yield.
func (d *Dispatcher) hasNext(r *graph.Run, class tasks.Class, skipped *[]yielded) bool {
	b := d.lineOf(r).backlogs[class]
	for b != nil && len(*b) > 0 {
		e := (*b)[0]
		if !e.stale() && e.task.WantedBy(r) && d.runnable(e.task) {
			if !d.yields(e.task, r) {
				return true
			}
			*skipped = append(*skipped, yielded{b, e})
		}
		b.take()
	}
	return false
}

// yielded is an entry that returns to its backlog, because its task let other trainings go first.
type yielded struct {
	backlog *backlog
	entry   entry
}

// runnable reports whether live workers can run the task. Other tasks are parked
// until the workers change.
func (d *Dispatcher) runnable(x *graph.Task) bool {
	if d.Fleet.MissingCapability(x) == "" {
		return true
	}
	d.graph.Park(x)
	d.parked = append(d.parked, x)
	return false
}

// backlog holds the ready tasks of a run for one class, the most urgent first.
// It may contain tasks that are no longer ready; the reader checks.
type backlog []entry

type entry struct {
	task   *graph.Task
	urgent bool
	rank   int32
	seq    int
}

func entryOf(x *graph.Task) entry { return entry{x, x.Urgent, x.Rank, x.Seq} }

// stale reports whether the task was sent, or became ready again, since it was added.
func (e entry) stale() bool { return e.task.State() != graph.Ready || e.seq != e.task.Seq }

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

func (b *backlog) add(e entry) { heap.Push(b, e) }
func (b *backlog) take() entry { return heap.Pop(b).(entry) }
