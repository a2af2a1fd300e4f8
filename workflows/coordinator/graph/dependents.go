package graph

import (
	"iter"
	"slices"
)

// dependents are notified when an output becomes available. Most outputs have one
// dependent, a node.
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

// another makes room for a dependent in addition to the first node.
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
