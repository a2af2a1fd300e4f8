package coordinator

import (
	"context"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/workflows/availability"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// recount works out anew who wants what: what is wanted follows from the open
// cells of the active runs and from what is available, and from nothing else.
func (t *term) recount() {
	t.dirty, t.withdrawn, t.changed = false, true, true
	for _, n := range t.nodes {
		n.wants = n.wants[:0]
	}
	for _, ch := range t.chains {
		for _, cp := range ch.checkpoints {
			cp.wants = cp.wants[:0]
		}
		if ch.current != nil {
			for _, x := range ch.current.tasks() {
				x.wants = nil // set again by advance, which offers it as well
			}
		}
	}
	for _, r := range t.order {
		r.backlog = nil
		if !r.active() {
			continue
		}
		for i, c := range r.cells {
			if c.failed {
				continue
			}
			for _, d := range c.targets {
				t.want(d, r, i)
			}
		}
		t.checkEnd(r)
	}
	for _, ch := range t.chainsInOrder() {
		ch.sharing = ch.sharing && ch.wanted()
		t.schedule(ch)
	}
	for _, n := range t.nodesReady() {
		t.offer(n.task)
	}
}

// nodesReady are the standing nodes in the backlog, in the order in which they
// became ready.
func (t *term) nodesReady() []*node {
	var nodes []*node
	for _, n := range t.nodes {
		if n.state == ready {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *node) int { return a.seq - b.seq })
	return nodes
}

// want adds a run's interest in something, and in all that it takes to have it.
// rank orders the work of a run: cells in the order of the grid.
func (t *term) want(d dependency, r *run, rank int) {
	if d.available() {
		return
	}
	if d.checkpoint != nil {
		if addWant(&d.checkpoint.wants, r) {
			d.checkpoint.rank = min(d.checkpoint.rank, rank)
			t.schedule(d.checkpoint.chain)
		}
		return
	}
	n := d.node
	if !addWant(&n.wants, r) {
		return
	}
	n.rank = min(n.rank, rank)
	switch n.presence {
	case unknown:
		t.inspect(n)
	case absent:
		t.wantNeeds(n, r, rank)
		if n.state == ready {
			t.offer(n.task)
		}
		t.readyIfPossible(n)
	}
}

func (t *term) wantNeeds(n *node, r *run, rank int) {
	for _, d := range n.needs {
		t.want(d, r, rank)
	}
}

func addWant(wants *[]*run, r *run) bool {
	if slices.Contains(*wants, r) {
		return false
	}
	*wants = append(*wants, r)
	return true
}

// inspect asks storage whether a standing node is available.
func (t *term) inspect(n *node) {
	n.presence = checking
	t.persist(reading, "looking for "+n.label,
		func() bool { return n.presence == checking && n.plans > 0 },
		func(ctx context.Context) (func(), error) {
			f, err := t.lookUpClean(ctx, n.key)
			return func() { t.inspected(n, f) }, err
		})
}

func (t *term) inspected(n *node, f availability.Node) {
	if n.presence != checking {
		return // it has been run, or let go, meanwhile
	}
	if f.Available() {
		t.arrived(n)
		return
	}
	n.presence, n.why = absent, f.Why()
	for _, r := range slices.Clone(n.wants) {
		t.wantNeeds(n, r, n.rank)
	}
	t.readyIfPossible(n)
}

// readyIfPossible makes a node ready if it is wanted, absent, and has all it needs.
func (t *term) readyIfPossible(n *node) {
	if n.presence == absent && n.state == idle && len(n.wants) > 0 && n.ready() {
		t.ready(n.task)
	}
}

// arrived marks a standing node available and tells whoever waits for it.
func (t *term) arrived(n *node) {
	n.presence = available
	t.finishTask(n.task)
	n.wants = n.wants[:0]
	if !n.ready() {
		t.dirty = true // what it would have needed is no longer wanted for it
	}
	t.notify(&n.dependents)
	t.changed = true
}

// invalidate marks a standing node's output as gone: it is looked for again, and
// run again if it is indeed not there.
func (t *term) invalidate(n *node) {
	if n.presence != available {
		return
	}
	n.presence = unknown
	t.move(n.task, lose)
	t.dirty = true
}

// committed implements owner.
func (n *node) committed(t *term, _ *task, _ []storage.Blob) { t.arrived(n) }

// input implements owner.
func (n *node) input(t *term, _ *task, key storage.Key) (input, bool) {
	for _, d := range n.needs {
		if d.key() == key {
			return input{d.available(), func() { t.loseDependency(d) }}, true
		}
	}
	return input{}, false
}

// loseDependency has something looked for again that turned out to be gone.
func (t *term) loseDependency(d dependency) {
	t.dirty = true
	if d.node != nil {
		t.invalidate(d.node)
	} else {
		t.lose(d.checkpoint.chain, d.checkpoint.step)
	}
}

// late implements owner: a standing node that is there twice is there once.
func (n *node) late(*term, *task) {}

// requeue implements owner: the node goes back to wait for what it needs.
func (n *node) requeue(t *term, _ *task) { t.readyIfPossible(n) }

// contributesTo implements owner.
func (n *node) contributesTo(visit func(dependency)) { visit(dependency{node: n}) }

// cellsOf returns the cells of a run that need a task's output, by walking up
// from it through all that is not available.
func (t *term) cellsOf(task *task, r *run) []*cell {
	seen := make(map[dependency]bool)
	var cells []*cell
	var up func(dependency)
	up = func(d dependency) {
		if seen[d] || d.available() {
			return
		}
		seen[d] = true
		ds := d.dependents()
		cells = append(cells, ds.cells...)
		for _, ch := range ds.chains {
			ch.missing(up)
		}
		for _, p := range ds.nodes {
			up(dependency{node: p})
		}
	}
	task.owner.contributesTo(up)
	var ofRun []*cell
	for _, c := range r.cells {
		if slices.Contains(cells, c) {
			ofRun = append(ofRun, c)
		}
	}
	return ofRun
}

// checkEnd has the loop see whether all cells of a run have ended.
func (t *term) checkEnd(r *run) {
	if !slices.Contains(t.ending, r) {
		t.ending = append(t.ending, r)
	}
}

// finishIfEnded ends a run all of whose cells have, once what its chains no
// longer need to store has been deleted, and its outcome been seen to be there.
func (t *term) finishIfEnded(r *run) {
	assured := r.assured
	r.assured = false
	if !r.active() {
		return
	}
	outcomes := make(map[string]runs.Phase, len(r.cells))
	for _, c := range r.cells {
		switch {
		case c.failed:
			outcomes[c.plan.Name] = runs.Failed
		case c.done():
			outcomes[c.plan.Name] = runs.Done
		default:
			return
		}
	}
	if t.tidying(r) {
		return
	}
	if !assured {
		t.assure(r)
		return
	}
	t.finish(r, outcomes)
}

// assure looks at the outcome of a run in storage before the run ends: what was
// found cached may have been collected since. While a batch of a collection is
// under way the answer would count for nothing. One that begins afterwards reads
// the runs first, this one among them.
func (t *term) assure(r *run) {
	if r.assuring {
		return
	}
	r.assuring = true
	targets := make(map[storage.Key]dependency)
	for _, c := range r.cells {
		for _, d := range c.targets {
			if !c.failed {
				targets[d.key()] = d
			}
		}
	}
	keys := plan.SortedKeys(targets)
	t.persist(reading, "looking at the outcome of run "+r.id, r.stillAssuring, func(ctx context.Context) (func(), error) {
		before, quietBefore := t.token.Quiet()
		gone, err := t.goneOf(ctx, keys)
		after, quietAfter := t.token.Quiet()
		quiet := quietBefore && quietAfter && before == after
		return func() {
			for _, key := range gone {
				t.loseDependency(targets[key])
			}
			t.assured(r, len(gone) == 0 && quiet)
		}, err
	})
}

// stillAssuring reports whether the outcome is still to be looked at.
func (r *run) stillAssuring() bool {
	r.assuring = r.active()
	return r.assuring
}

// assureAgain is the pause before an outcome is looked at again, after a batch of
// a collection was under way.
const assureAgain = 100 * time.Millisecond

// assured ends the run if its outcome was seen; otherwise it is looked at again.
func (t *term) assured(r *run, seen bool) {
	r.assuring, r.assured = false, seen
	if seen {
		t.checkEnd(r)
		return
	}
	t.after(assureAgain, func() { t.checkEnd(r) })
}

// goneOf returns those of the nodes that cannot be read.
func (t *term) goneOf(ctx context.Context, keys []storage.Key) ([]storage.Key, error) {
	found, err := availability.LookUpAll(ctx, t.archive, keys)
	var gone []storage.Key
	for i, key := range keys {
		if !found[i].Available() {
			gone = append(gone, key)
		}
	}
	return gone, err
}
