package graph

import (
	"math/rand/v2"
	"testing"

	"coalmine/storage"
)

// Many of the keys point to one slot, and some beyond the last.
func TestNodeTableMatchesMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 1))
		table, want := newNodeTable(), make(map[storage.Key]*Node)
		maxKeys := 1 << r.IntN(7)
		for i := range 2000 {
			key := storage.Key{Digest: storage.Digest{0: byte(-r.IntN(3)), 1: byte(-r.IntN(2)), 8: byte(r.IntN(maxKeys)), 9: byte(i / 500)}}
			switch n := want[key]; {
			case table.get(key) != n:
				t.Fatalf("seed %d, step %d: got %v, want %v", seed, i, table.get(key), n)
			case n == nil:
				n = &Node{Task: Task{Key: key}}
				table.add(n)
				want[key] = n
			case r.IntN(4) > 0:
				table.remove(n)
				delete(want, key)
			}
		}
		checkTable(t, &table, want)
		for key, n := range want {
			table.remove(n)
			delete(want, key)
			if table.get(key) != nil {
				t.Fatalf("seed %d: a node that was removed is still there", seed)
			}
		}
		checkTable(t, &table, want)
		if len(table.slots) != minSlots {
			t.Errorf("seed %d: %d slots are left without nodes", seed, len(table.slots))
		}
	}
}

// checkTable compares a table with a map, and its load with the bounds.
func checkTable(t *testing.T, table *nodeTable, want map[storage.Key]*Node) {
	t.Helper()
	all := 0
	for n := range table.all {
		all++
		if want[n.Key] != n || table.get(n.Key) != n {
			t.Fatalf("node %s is not found, or not wanted", n.Key.Short())
		}
	}
	if all != len(want) || table.taken != all {
		t.Errorf("%d nodes, said to be %d, want %d", all, table.taken, len(want))
	}
	if slots := len(table.slots); 4*all > 3*slots || 8*all < slots && slots > minSlots {
		t.Errorf("%d nodes in %d slots", all, slots)
	}
}
