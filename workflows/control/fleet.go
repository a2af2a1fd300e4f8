package control

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/workflows/runs/status"
)

// Workers implements API. It asks the queue for live workers, and the coordinator for their tasks.
func (l *Local) Workers(ctx context.Context) (*status.Fleet, error) {
	f := &fleet{workers: map[string]*status.FleetWorker{}, queues: map[tasks.Class]*status.Queue{}, at: map[string]bool{}, waits: []status.Wait{}}
	alive, err := l.alive(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		f.wait(status.WaitQueue, fmt.Sprintf("the queue does not answer, so workers are unknown: %v", err))
		return f.fleet(), nil
	case len(alive) == 0:
		f.wait(status.WaitWorker, "no worker is alive; start one with: coalmine worker")
	}
	for i := range alive {
		f.add(&alive[i])
	}
	if l.leads() {
		f.took(l.coordinator.Takeovers())
	}
	all, _, _, err := l.readable(ctx)
	if err != nil {
		return nil, err
	}
	untold := 0
	for _, run := range present(all) {
		if run.State.Phase.Finished() {
			continue
		}
		if s, _ := l.live(ctx, run); s != nil {
			f.addRun(s)
		} else {
			untold++
		}
	}
	if untold > 0 {
		f.wait(status.WaitCoordinator, fmt.Sprintf("no coordinator reports %d of the unfinished runs, so their tasks are not shown", untold))
	}
	return f.fleet(), nil
}

// alive returns the live workers, from their heartbeats.
func (l *Local) alive(ctx context.Context) ([]queue.Worker, error) {
	if l.queue == nil {
		return nil, l.away
	}
	return l.queue.Workers(ctx)
}

// fleet collects the fields of a status.Fleet.
type fleet struct {
	workers map[string]*status.FleetWorker
	queues  map[tasks.Class]*status.Queue
	at      map[string]bool // attempts of earlier runs
	waits   []status.Wait
}

func (f *fleet) wait(reason status.WaitReason, detail string) {
	f.waits = append(f.waits, status.Wait{Reason: reason, Detail: detail})
}

func (f *fleet) queue(class tasks.Class) *status.Queue {
	if f.queues[class] == nil {
		f.queues[class] = &status.Queue{Class: class}
	}
	return f.queues[class]
}

// add adds a worker from its heartbeat.
func (f *fleet) add(w *queue.Worker) {
	one := &status.FleetWorker{Worker: status.WorkerOf(w), Classes: []tasks.Class{}, Tasks: []status.FleetTask{}}
	for _, class := range w.Classes {
		one.Classes = append(one.Classes, tasks.Class(class))
		if q := f.queue(tasks.Class(class)); !w.Draining {
			q.Slots += w.SlotsOf(class)
		}
	}
	f.workers[w.ID] = one
}

// took sets the number of takeovers, by worker id.
func (f *fleet) took(over map[string]int) {
	for id, n := range over {
		if w := f.workers[id]; w != nil {
			w.Takeovers = max(w.Takeovers, n)
		}
	}
}

// cannotHelp adds the reason why a worker cannot run tasks of a run.
func (f *fleet) cannotHelp(run string, w status.Worker) {
	if known := f.workers[w.ID]; known != nil && known.CannotHelp == "" && w.CannotHelp != "" {
		known.CannotHelp = fmt.Sprintf("run %s: %s", run, w.CannotHelp)
	}
}

// addRun adds the coordinator's status of a run. A task of several runs is listed for the
// first run, and counts in the queue of each.
func (f *fleet) addRun(s *status.Run) {
	for _, w := range s.Workers {
		f.took(map[string]int{w.ID: w.Takeovers})
		f.cannotHelp(s.Run, w)
	}
	for _, a := range s.Running {
		id := fmt.Sprint(a.Key, a.Attempt, a.Worker)
		if w := f.workers[a.Worker]; w != nil && !f.at[id] {
			f.at[id] = true
			w.Tasks = append(w.Tasks, status.FleetTask{Run: s.Run, Attempt: a})
		}
	}
	for _, q := range s.Queues {
		f.queue(q.Class).Add(q)
	}
}

func (f *fleet) fleet() *status.Fleet {
	return &status.Fleet{
		Workers: lists.Map(slices.Sorted(maps.Keys(f.workers)), func(id string) status.FleetWorker { return *f.workers[id] }),
		Queues:  lists.Map(slices.Sorted(maps.Keys(f.queues)), func(class tasks.Class) status.Queue { return *f.queues[class] }), Waits: f.waits,
	}
}

func (l *Local) Drain(ctx context.Context, name string) ([]string, error) {
	if l.away != nil {
		return nil, fmt.Errorf("worker %q: %w", name, l.away)
	}
	if l.queue == nil {
		return nil, fmt.Errorf("worker %q: %w: this process has no queue; name the queue with --redis, or a coordinator with --server", name, ErrNoWorker)
	}
	alive, err := l.queue.Workers(ctx)
	if err != nil {
		return nil, err
	}
	found, err := named(alive, name)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, w := range found {
		if err := l.queue.Drain(ctx, w.ID); err != nil {
			return ids, err
		}
		ids = append(ids, w.ID)
	}
	return ids, nil
}

// named returns the workers that a name means: the worker with that id, all workers of that host, or the
// only worker with an id that begins with it.
func named(alive []queue.Worker, name string) ([]queue.Worker, error) {
	for _, means := range []func(queue.Worker) bool{
		func(w queue.Worker) bool { return w.ID == name },
		func(w queue.Worker) bool { return w.Host == name },
		func(w queue.Worker) bool { return strings.HasPrefix(w.ID, name) },
	} {
		if found := lists.Filter(alive, means); len(found) > 0 {
			return found, checkNamed(found, name)
		}
	}
	ids := lists.Map(alive, func(w queue.Worker) string { return w.ID })
	return nil, fmt.Errorf("worker %q: %w; live workers: %s", name, ErrNoWorker, strings.Join(ids, ", "))
}

func checkNamed(found []queue.Worker, name string) error {
	host, _ := os.Hostname()
	for _, w := range found {
		if w.Host == host && w.PID == os.Getpid() {
			return fmt.Errorf("worker %s: the request %w: the worker belongs to process %d, which runs all parts of its home; interrupt that process instead", w.ID, ErrInput, w.PID)
		}
		if w.ID != name && w.Host != name && len(found) > 1 {
			return fmt.Errorf("worker %q: the name %w: %d ids begin with it; give a whole id, or a host", name, ErrInput, len(found))
		}
	}
	return nil
}
