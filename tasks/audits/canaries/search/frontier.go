package search

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"coalmine/storage"
)

// node is an expanded beginning of a sequence: the node before it, and the token that leads from there.
// Numbers follow the order of expansion; 0 is the root.
type node struct {
	parent, token int32
}

// entry is an unexpanded beginning of a sequence: its cost in nats, the expanded node before it, and the
// token that leads from there.
type entry struct {
	cost          float64
	parent, token int32
}

// Sizes in bytes, for the bound on memory and the frontier's blob.
const (
	nodeBytes  = 8
	entryBytes = 16
)

// compareEntries is a total order: no two entries have the same parent and token.
func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.parent, b.parent), cmp.Compare(a.token, b.token))
}

// queue is a binary heap of entries, the cheapest first. The order of removal depends only on the entries.
type queue []entry

func (q *queue) push(e entry) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		above := (i - 1) / 2
		if compareEntries(h[above], h[i]) <= 0 {
			return
		}
		h[above], h[i] = h[i], h[above]
		i = above
	}
}

func (q *queue) pop() entry {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	*q = h[:last]
	q.sink(0)
	return first
}

func (q queue) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if compareEntries(q[child], q[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// drop keeps the cheapest n entries, and returns the lowest cost of the others.
func (q *queue) drop(n int) float64 {
	slices.SortFunc(*q, compareEntries) // a sorted slice is a heap
	cost := (*q)[n].cost
	*q = (*q)[:n]
	return cost
}

// FrontierBlob holds the nodes and the queue of an unfinished search, little-endian: the number of nodes
// (uint64); of each the parent and the token (int32), the root's being -1; and of each entry of the heap cost
// (float64), parent and token (int32).
const FrontierBlob = "frontier"

func (w *walk) save() []byte {
	data := make([]byte, 0, 8+nodeBytes*len(w.nodes)+entryBytes*len(w.queue))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(w.nodes)))
	for _, n := range w.nodes {
		data = appendNode(data, n.parent, n.token)
	}
	for _, e := range w.queue {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(e.cost))
		data = appendNode(data, e.parent, e.token)
	}
	return data
}

func appendNode(data []byte, parent, token int32) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(parent))
	return binary.LittleEndian.AppendUint32(data, uint32(token))
}

func (w *walk) load(data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("frontier of %d bytes: %w", len(data), storage.ErrCorrupt)
	}
	n, rest := binary.LittleEndian.Uint64(data), data[8:]
	if n == 0 || n > uint64(len(rest))/nodeBytes || (len(rest)-int(n)*nodeBytes)%entryBytes != 0 {
		return fmt.Errorf("frontier of %d nodes in %d bytes: %w", n, len(data), storage.ErrCorrupt)
	}
	w.nodes, w.queue = make([]node, n), make(queue, (len(rest)-int(n)*nodeBytes)/entryBytes)
	for i := range w.nodes {
		w.nodes[i].parent, w.nodes[i].token = nodeAt(rest[i*nodeBytes:])
	}
	rest = rest[int(n)*nodeBytes:]
	for i := range w.queue {
		e := rest[i*entryBytes:]
		w.queue[i].cost = math.Float64frombits(binary.LittleEndian.Uint64(e))
		w.queue[i].parent, w.queue[i].token = nodeAt(e[8:])
	}
	return w.checkFrontier()
}

func nodeAt(data []byte) (parent, token int32) {
	return int32(binary.LittleEndian.Uint32(data)), int32(binary.LittleEndian.Uint32(data[4:]))
}

// checkFrontier rejects nodes before their parent, and nodes that are not the beginning of a sequence of the
// tree.
func (w *walk) checkFrontier() error {
	lengths := make([]int, len(w.nodes))
	for i, n := range w.nodes {
		switch {
		case i == 0 && n == node{-1, -1}:
		case i > 0 && w.follows(n.parent, n.token, lengths[:i]):
			lengths[i] = lengths[n.parent] + 1
		default:
			return fmt.Errorf("frontier: node %d follows node %d by token %d: %w", i, n.parent, n.token, storage.ErrCorrupt)
		}
	}
	for i, e := range w.queue {
		if !w.follows(e.parent, e.token, lengths) || !(e.cost >= 0) {
			return fmt.Errorf("frontier: entry %d of cost %v follows node %d by token %d: %w", i, e.cost, e.parent, e.token, storage.ErrCorrupt)
		}
	}
	return nil
}

// follows reports whether token leads to an inner node of the tree from parent, whose length is in lengths.
func (w *walk) follows(parent, token int32, lengths []int) bool {
	if parent < 0 || int(parent) >= len(lengths) || w.tree.Leaf(lengths[parent], token) {
		return false
	}
	_, found := slices.BinarySearch(w.tree.Choices[lengths[parent]], token)
	return found
}
