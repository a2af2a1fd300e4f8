package coordinator

import (
	"math"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

// run is a run as this term knows it. Its cells and nodes exist only while it
// is neither finished nor paused before its plan was made.
type run struct {
	id string
	// record is the run as last read from storage; outbox are entries on their
	// way there; state is the fold of both.
	record  *runs.Run
	outbox  []runs.Entry
	sending bool
	state   runs.State

	compiling    bool
	compileTries int
	plan         *plan.Plan // nil unless the run is live
	claimed      bool       // its claims on checkpoints are known
	erasing      bool       // its record is being deleted
	cells        []*cell

	inFlight   int // attempts in flight that are charged to it
	lastServed int
	backlog    map[tasks.Class]*backlog
	tokens     meter
	tidying    time.Time  // since when its end waits for deletions
	assuring   bool       // its outcome is being looked at
	assured    bool       // its outcome has just been seen in storage
	shown      runs.Phase // as last published
	lastCells  []status.Cell
	progressed time.Time             // when something that it wants was last committed
	waiting    map[waitFor]time.Time // since when it waits for what
}

// live reports whether the run has a plan whose nodes this term holds.
func (r *run) live() bool { return r.plan != nil }

// active reports whether the run wants anything.
func (r *run) active() bool {
	return r.live() && (r.state.Phase == runs.Queued || r.state.Phase == runs.Running)
}

// cell is one point of a live run's grid.
type cell struct {
	run     *run
	plan    plan.Cell
	targets []dependency
	// failed cells want nothing.
	failed bool
}

// done reports whether everything that the cell is for is there.
func (c *cell) done() bool {
	for _, d := range c.targets {
		if !d.available() {
			return false
		}
	}
	return true
}

// dependency is something whose output somebody needs: a standing node, or a
// checkpoint of a chain.
type dependency struct {
	node       *node
	checkpoint *checkpoint
}

func (d dependency) available() bool {
	if d.node != nil {
		return d.node.presence == available
	}
	return d.checkpoint.available
}

func (d dependency) dependents() *dependents {
	if d.node != nil {
		return &d.node.dependents
	}
	return &d.checkpoint.dependents
}

func (d dependency) key() storage.Key {
	if d.node != nil {
		return d.node.key
	}
	return d.checkpoint.chain.shape.Key(d.checkpoint.step)
}

// dependents are who is notified when a dependency becomes available.
type dependents struct {
	nodes  []*node
	chains []*chain
	cells  []*cell
}

// notify has all dependents look again.
func (t *term) notify(ds *dependents) {
	for _, n := range ds.nodes {
		t.readyIfPossible(n)
	}
	for _, ch := range ds.chains {
		t.schedule(ch)
	}
	for _, c := range ds.cells {
		t.checkEnd(c.run)
	}
}

// forgetNodes removes parents that are gone, forgetRun the cells of a run.
func (ds *dependents) forgetNodes(gone map[*node]bool) {
	ds.nodes = slices.DeleteFunc(ds.nodes, func(n *node) bool { return gone[n] })
}

func (ds *dependents) forgetRun(r *run) {
	ds.cells = slices.DeleteFunc(ds.cells, func(c *cell) bool { return c.run == r })
}

// status is what the term knows of a standing node's outputs.
type presence int

const (
	unknown  presence = iota // nobody has asked yet
	checking                 // storage is being asked
	absent                   // must be run if it is wanted
	available
)

// node is a standing node, shared by all live runs whose plans hold it.
type node struct {
	*task
	dependents
	planned  *plan.Node
	presence presence
	why      string // of being absent, for people
	needs    []dependency
	// plans counts the live runs that hold the node.
	plans int
}

// ready reports whether all that the node needs is there.
func (n *node) ready() bool {
	for _, d := range n.needs {
		if !d.available() {
			return false
		}
	}
	return true
}

// adopt takes up a run's plan: its nodes are merged into those that are there.
func (t *term) adopt(r *run, p *plan.Plan) {
	r.plan = p
	t.enterClaims(r, p)
	for _, key := range plan.SortedKeys(p.Nodes) {
		if n := t.nodes[key]; n != nil {
			n.plans++
			continue
		}
		t.nodes[key] = newNode(p.Nodes[key])
	}
	for _, recipe := range plan.SortedKeys(p.Chains) {
		t.adoptChain(r, p.Chains[recipe])
	}
	for _, key := range plan.SortedKeys(p.Nodes) {
		t.link(t.nodes[key])
	}
	for _, recipe := range plan.SortedKeys(p.Chains) {
		t.linkChain(t.chains[recipe])
	}
	for _, c := range p.Cells {
		r.cells = append(r.cells, t.newCell(r, c))
	}
	t.inheritTroubles(r)
}

func newNode(p *plan.Node) *node {
	n := &node{planned: p, plans: 1}
	n.task = &task{spec: p.Spec, label: p.Label, owner: n, key: p.Key, rank: math.MaxInt}
	return n
}

// link connects a new node with what it needs, once.
func (t *term) link(n *node) {
	if n.needs != nil {
		return
	}
	for _, ref := range n.planned.Needs {
		d := t.resolve(ref)
		n.needs = append(n.needs, d)
		ds := d.dependents()
		ds.nodes = append(ds.nodes, n)
	}
}

func (t *term) resolve(ref plan.Ref) dependency {
	if ref.Chain == nil {
		return dependency{node: t.nodes[ref.Key]}
	}
	return dependency{checkpoint: t.chains[ref.Chain.Recipe].checkpointAt(ref.Step)}
}

func (t *term) newCell(r *run, p plan.Cell) *cell {
	c := &cell{run: r, plan: p}
	for _, ref := range []plan.Ref{p.Report, p.Model} {
		d := t.resolve(ref)
		c.targets = append(c.targets, d)
		ds := d.dependents()
		ds.cells = append(ds.cells, c)
	}
	return c
}

// release lets go of a run's plan. Nodes that no other live run holds are gone
// from memory; what they have committed stays in storage.
func (t *term) release(r *run) {
	if !r.live() {
		return
	}
	p := r.plan
	r.lastCells = t.cellStatuses(r, nil)
	r.plan, r.cells, r.backlog = nil, nil, nil
	gone := make(map[*node]bool)
	for _, key := range plan.SortedKeys(p.Nodes) {
		n := t.nodes[key]
		if n.plans--; n.plans == 0 {
			gone[n] = true
			delete(t.nodes, key)
		}
		n.forgetRun(r)
	}
	for _, recipe := range plan.SortedKeys(p.Chains) {
		t.releaseChain(t.chains[recipe], r, gone)
	}
	for n := range gone {
		for _, d := range n.needs {
			d.dependents().forgetNodes(gone)
		}
		n.wants, n.presence = nil, unknown
	}
	t.dirty = true
}
