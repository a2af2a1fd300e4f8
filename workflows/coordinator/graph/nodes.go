package graph

import (
	"encoding/binary"
	"maps"

	"coalmine/storage"
)

// nodeTable holds nodes by their keys. It files them under the first bytes of a key: a
// map by whole keys would hold each key once more, and take two fifths of the memory of
// the nodes themselves.
type nodeTable struct {
	nodes map[uint64]*Node
	// clashes are nodes whose keys begin as that of another. Keys are digests, so that
	// there are none in practice.
	clashes map[storage.Key]*Node
}

func newNodeTable() nodeTable {
	return nodeTable{nodes: make(map[uint64]*Node), clashes: make(map[storage.Key]*Node)}
}

func beginning(key storage.Key) uint64 { return binary.BigEndian.Uint64(key.Digest[:]) }

// get returns the node of a key, nil if there is none.
func (t *nodeTable) get(key storage.Key) *Node {
	if n := t.nodes[beginning(key)]; n != nil && n.Key == key {
		return n
	}
	return t.clashes[key]
}

// add adds a node whose key has none yet.
func (t *nodeTable) add(n *Node) {
	if t.nodes[beginning(n.Key)] == nil {
		t.nodes[beginning(n.Key)] = n
	} else {
		t.clashes[n.Key] = n
	}
}

func (t *nodeTable) remove(n *Node) {
	if t.nodes[beginning(n.Key)] == n {
		delete(t.nodes, beginning(n.Key))
	} else {
		delete(t.clashes, n.Key)
	}
}

// all yields the nodes in no order.
func (t *nodeTable) all(yield func(*Node) bool) {
	for n := range maps.Values(t.nodes) {
		if !yield(n) {
			return
		}
	}
	for n := range maps.Values(t.clashes) {
		if !yield(n) {
			return
		}
	}
}
