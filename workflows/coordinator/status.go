package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

// publishedTTL is how long a published status outlives its coordinator.
const publishedTTL = 10 * time.Second

// publishEvery is how often the status of a run is published at most.
const publishEvery = time.Second

// Snapshot returns the status of a run as of a moment ago, or false if this
// process leads no run of that id. It must not be changed.
func (c *Coordinator) Snapshot(run string) (*status.Run, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.snapshots[run]
	return s, ok
}

// Updated returns a channel that is closed when snapshots have changed.
func (c *Coordinator) Updated() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.updated
}

// show renews the snapshots, if anything has changed or is at work.
func (c *Coordinator) show(t *term) {
	if !t.changed && len(t.attempts) == 0 {
		return
	}
	t.changed = false
	c.mu.Lock()
	fresh := make(map[string]*status.Run, len(t.order))
	for _, r := range t.order {
		if old := c.snapshots[r.id]; old != nil && old.Phase.Finished() && old.Finished.Equal(r.state.Finished) {
			fresh[r.id] = old
			continue
		}
		fresh[r.id] = t.status(r)
	}
	c.snapshots = fresh
	close(c.updated)
	c.updated = make(chan struct{})
	c.mu.Unlock()
	t.publish(fresh)
}

// publish shows the statuses of unfinished runs to other processes.
func (t *term) publish(all map[string]*status.Run) {
	if t.now().Sub(t.published) < publishEvery || !t.queueDown.since.IsZero() {
		t.changed = true // so that the last change is not the one left out
		return
	}
	t.published = t.now()
	for _, r := range t.order {
		s := all[r.id]
		if s.Phase.Finished() && (r.shown == s.Phase || r.lastCells == nil) {
			continue // nobody waits for runs that ended before this term
		}
		r.shown = s.Phase
		t.start(sending, func(ctx context.Context) func() {
			data, err := json.Marshal(s)
			if err == nil {
				err = t.Queue.Publish(ctx, status.PublishedName(s.Run), data, publishedTTL)
			}
			return func() {
				if err != nil {
					t.queueFails(err)
				}
			}
		})
	}
}

// status describes a run.
func (t *term) status(r *run) *status.Run {
	s := &status.Run{
		Run: r.id, Name: r.record.Spec.Name, Phase: r.state.Phase, Error: r.state.Error,
		Submitted: r.state.Submitted, Started: r.state.Started, Finished: r.state.Finished,
		TokensPerSecond: r.tokens.rate(t.now()),
	}
	if s.Phase.Finished() && len(r.outbox) > 0 {
		s.Phase = r.record.State.Phase // the end counts for others once it is stored
	}
	for _, key := range sortedFailures(r.state.Failures) {
		s.Failures = append(s.Failures, status.Failure{Key: key, Failure: r.state.Failures[key]})
	}
	s.Nodes.Failed = len(s.Failures)
	for _, w := range t.workers {
		s.Workers = append(s.Workers, status.Worker{
			ID: w.ID, Host: w.Host, Slots: w.Slots, Running: len(w.Running), Draining: w.Draining,
			MemoryBytes: w.Memory.Used, MemoryLimitBytes: w.Memory.Limit,
		})
	}
	s.LastProgress = r.progressed
	t.addWaits(s, r)
	if !r.live() {
		s.Cells = r.endedCells()
		return s
	}
	now := t.addRunning(s, r)
	t.addNodes(s, r)
	s.Cells = t.cellStatuses(r, now)
	s.SecondsLeft = t.secondsLeft(r)
	return s
}

func sortedFailures(m map[storage.Key]runs.Failure) []storage.Key {
	return slices.SortedFunc(maps.Keys(m), storage.Key.Compare)
}

// endedCells are the cells of a run that is not live: as they were when it was
// let go, if that was in this term, with what became of them.
func (r *run) endedCells() []status.Cell {
	cells := slices.Clone(r.lastCells)
	if len(cells) == 0 {
		for _, name := range slices.Sorted(maps.Keys(r.state.Outcomes)) {
			cells = append(cells, status.Cell{Cell: name})
		}
	}
	for i := range cells {
		c := &cells[i]
		c.Phase, c.Now = cmp.Or(r.state.Outcomes[c.Cell], c.Phase), ""
		if c.Phase == runs.Done {
			c.Step = c.Steps
		} else if c.Phase != runs.Failed {
			c.Phase = r.state.Phase
		}
	}
	return cells
}

// addRunning lists the attempts at work for the run, and returns what runs for
// each of its chains and nodes.
func (t *term) addRunning(s *status.Run, r *run) map[any]string {
	now := make(map[any]string)
	for _, a := range t.attemptsInOrder() {
		if a.stopping || !slices.Contains(a.task.wants, r) {
			continue
		}
		x := a.task
		if a.worker != "" {
			s.Running = append(s.Running, status.Attempt{
				Key: x.key, Label: x.label, Kind: x.spec.Kind, Attempt: a.number,
				Worker: a.worker, Seconds: a.running, Done: a.progress.Done, Total: a.progress.Total,
			})
		}
		if own, ok := x.owner.(*step); ok {
			now[own.chain] = x.label
		} else {
			now[x.owner] = x.label
		}
	}
	return now
}

func (t *term) addNodes(s *status.Run, r *run) {
	count := func(x *task) {
		s.Nodes.Total++
		switch x.state {
		case finished:
			s.Nodes.Done++
		case inFlight:
			s.Nodes.Running++
		case ready:
			s.Nodes.Ready++
		default:
			s.Nodes.Waiting++
		}
	}
	for key := range r.plan.Nodes {
		count(t.nodes[key].task)
	}
	for recipe := range r.plan.Chains {
		if ch := t.chains[recipe]; ch.current != nil {
			for _, x := range ch.current.tasks() {
				count(x)
			}
		}
	}
}

func (t *term) cellStatuses(r *run, now map[any]string) []status.Cell {
	var cells []status.Cell
	for _, c := range r.cells {
		cells = append(cells, t.cellStatus(c, now))
	}
	return cells
}

func (t *term) cellStatus(c *cell, now map[any]string) status.Cell {
	s := status.Cell{
		Cell: c.plan.Name, Label: c.plan.Label, Phase: runs.Queued,
		Step: t.roundsDone(c), Steps: c.plan.Rounds(), Unit: c.plan.Unit, StepRounds: 1,
	}
	for _, d := range c.targets {
		if d.node != nil && now[owner(d.node)] != "" {
			s.Now = now[owner(d.node)]
		}
	}
	if p := c.plan.Chain; p != nil {
		s.Now = cmp.Or(now[t.chains[p.Recipe]], s.Now)
	}
	switch {
	case c.failed:
		s.Phase = runs.Failed
	case c.done():
		s.Phase = runs.Done
	case s.Now != "" || s.Step > 0:
		s.Phase = runs.Running
	}
	return s
}

// roundsDone is how much of a cell's training is behind it, in the training's unit.
func (t *term) roundsDone(c *cell) int {
	trained := false
	if n := t.nodes[c.plan.Model.Key]; n != nil {
		trained = dependency{node: n}.available()
	}
	p := c.plan.Chain
	if p == nil {
		return c.plan.RoundsDone(0, trained)
	}
	ch, last := t.chains[p.Recipe], c.plan.ChainSteps()
	if last > 0 && ch.checkpointAt(last).available {
		return c.plan.RoundsDone(last, trained)
	}
	return c.plan.RoundsDone(ch.at, trained)
}

// tasksOf yields the tasks that the run wants at the moment.
func (t *term) tasksOf(r *run) func(yield func(*task) bool) {
	return func(yield func(*task) bool) {
		for key := range r.plan.Nodes {
			if n := t.nodes[key]; slices.Contains(n.wants, r) && !yield(n.task) {
				return
			}
		}
		for recipe := range r.plan.Chains {
			ch := t.chains[recipe]
			if ch.current == nil {
				continue
			}
			for _, x := range ch.current.tasks() {
				if slices.Contains(x.wants, r) && !yield(x) {
					return
				}
			}
		}
	}
}
