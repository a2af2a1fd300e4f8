// Package graph holds the wants of live runs and their progress: runs with their cells, standing nodes, chains with
// their checkpoints and current steps, the tasks to run, and the attempts at them. It is rebuilt from storage when a
// coordinator begins to lead (invariant 1). The graph is pure: it reads no store, sends no message and has no clock.
//
// # Events and requests
//
// The owner of a graph (the coordinator's term) reports events: a run has a plan
// ([Graph.AddPart], [Graph.Begin]), storage holds a node ([Graph.Found]), an attempt has
// committed ([Graph.Commit]). [Graph.Settle] then works out the consequences. The graph leaves
// its requests as data, [Requests]: nodes to look up, chains to survey, tasks that became ready,
// attempts to recall, steps that have been joined. The owner carries out the requests.
//
// # Wants
//
// A run wants its cells' targets: each cell's report and last checkpoint. If a wanted node is not available
// (committed, with readable blobs), the same runs want its needs too; a wanted checkpoint makes its chain
// make a pass to it from the nearest checkpoint below. A node is scheduled once for all runs and cells that
// want it, and only while at least one does; pausing a run only removes its wants. The graph recounts the
// wants when the open cells of active runs or the available outputs change.
//
// # Reading the files
//
// types.go defines the types, graph.go stores them in little memory, and taskstate.go has the states of
// a task and its attempts. notify.go propagates gained and lost outputs, want.go counts wants, pass.go
// and step.go advance chains, and adopt.go adds and releases plans; commit.go takes results in.
package graph

import (
	"encoding/binary"
	"iter"
	"log/slog"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
)

// New returns a graph without runs. It logs impossible transitions of tasks, which are bugs.
func New(log *slog.Logger) *Graph {
	return &Graph{
		log:       log,
		nodes:     newNodeTable(),
		chains:    make(map[storage.Key]*Chain),
		attempts:  make(map[string]*Attempt),
		at:        make(map[*Task][]*Attempt),
		inFlight:  make(map[tasks.Class]int),
		durations: make(map[string]*Samples),
	}
}

// nodeTable holds nodes by their keys: a hash table with open addressing (Knuth, The Art of Computer
// Programming 3, section 6.4, algorithm L). A slot is a pointer, because the node holds the key; a map
// would store each key again and, with its free slots, take half as much memory as the nodes.
type nodeTable struct {
	// The number of slots is a power of two; between an eighth and three quarters are taken. A node is in
	// the slot given by its key, or in the first free slot after it.
	slots []*Node
	taken int
}

const minSlots = 16

func newNodeTable() nodeTable { return nodeTable{slots: make([]*Node, minSlots)} }

// slot returns the index of a key's node, or the free index for it. Keys are digests:
// their first bytes serve as the hash.
func (t *nodeTable) slot(key storage.Key) int {
	i := t.wrap(int(binary.LittleEndian.Uint32(key.Digest[:])))
	for t.slots[i] != nil && t.slots[i].Key != key {
		i = t.wrap(i + 1)
	}
	return i
}

func (t *nodeTable) wrap(i int) int { return i & (len(t.slots) - 1) }

// get returns the node of a key, or nil.
func (t *nodeTable) get(key storage.Key) *Node { return t.slots[t.slot(key)] }

// add adds a node with a new key.
func (t *nodeTable) add(n *Node) {
	if 4*(t.taken+1) > 3*len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	t.slots[t.slot(n.Key)] = n
	t.taken++
}

// remove removes a node of the table. It reinserts the nodes in the following slots, so that searches that
// start before them still find them.
func (t *nodeTable) remove(n *Node) {
	i := t.slot(n.Key)
	t.slots[i] = nil
	t.taken--
	for i = t.wrap(i + 1); t.slots[i] != nil; i = t.wrap(i + 1) {
		behind := t.slots[i]
		t.slots[i] = nil
		t.slots[t.slot(behind.Key)] = behind
	}
	if half := len(t.slots) / 2; half >= minSlots && 4*t.taken < half {
		t.resize(half)
	}
}

func (t *nodeTable) resize(slots int) {
	old := *t
	t.slots = make([]*Node, slots)
	for n := range old.all {
		t.slots[t.slot(n.Key)] = n
	}
}

// all yields the nodes in no order. None may be added or removed meanwhile.
func (t *nodeTable) all(yield func(*Node) bool) {
	for _, n := range t.slots {
		if n != nil && !yield(n) {
			return
		}
	}
}

// dependents are notified when an output becomes available. Most outputs have one dependent, a node.
type dependents struct {
	node *Node
	more *moreDependents // nil for most outputs
}

type moreDependents struct {
	nodes  []*Node // except the first
	chains []*Chain
	cells  []*Cell
}

// nodes yields the dependents that are nodes, in the order in which they were added.
func (ds *dependents) nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if ds.node != nil && !yield(ds.node) {
			return
		}
		for _, n := range ds.others().nodes {
			if !yield(n) {
				return
			}
		}
	}
}

// others returns all dependents except the first node.
func (ds *dependents) others() moreDependents {
	if ds.more == nil {
		return moreDependents{}
	}
	return *ds.more
}

// another returns the dependents other than the first node, to be added to.
func (ds *dependents) another() *moreDependents {
	if ds.more == nil {
		ds.more = new(moreDependents)
	}
	return ds.more
}

func (ds *dependents) addNode(n *Node) {
	if ds.node == nil && len(ds.others().nodes) == 0 {
		ds.node = n
		return
	}
	more := ds.another()
	more.nodes = append(more.nodes, n)
}

func (ds *dependents) addChain(ch *Chain) {
	if more := ds.another(); !slices.Contains(more.chains, ch) {
		more.chains = append(more.chains, ch)
	}
}

func (ds *dependents) addCell(c *Cell) {
	more := ds.another()
	more.cells = append(more.cells, c)
}

func (ds *dependents) forgetNodes(gone map[*Node]bool) {
	if gone[ds.node] {
		ds.node = nil
	}
	if ds.more != nil {
		ds.more.nodes = slices.DeleteFunc(ds.more.nodes, func(n *Node) bool { return gone[n] })
	}
}

func (ds *dependents) forgetChain(ch *Chain) {
	if ds.more != nil {
		ds.more.chains = slices.DeleteFunc(ds.more.chains, func(c *Chain) bool { return c == ch })
	}
}

func (ds *dependents) forgetRun(r *Run) {
	if ds.more != nil {
		ds.more.cells = slices.DeleteFunc(ds.more.cells, func(c *Cell) bool { return c.Run == r })
	}
}
