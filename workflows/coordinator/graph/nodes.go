package graph

import (
	"encoding/binary"

	"coalmine/storage"
)

// nodeTable holds nodes by their keys: a hash table with open addressing (Knuth, The Art of
// Computer Programming 3, section 6.4, algorithm L). A slot is a pointer, because the key
// is in the node; a map would hold each key again, and with its free slots take half as
// much memory as the nodes.
type nodeTable struct {
	// The number of slots is a power of two; between an eighth and three quarters are
	// taken. A node is in the slot that its key points to, or in the first free slot
	// after it.
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

// get returns the node of a key, nil if there is none.
func (t *nodeTable) get(key storage.Key) *Node { return t.slots[t.slot(key)] }

// add adds a node with a new key.
func (t *nodeTable) add(n *Node) {
	if 4*(t.taken+1) > 3*len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	t.slots[t.slot(n.Key)] = n
	t.taken++
}

// remove removes a node of the table. It moves up later nodes so that searches that
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
