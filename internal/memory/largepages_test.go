package memory

import (
	"slices"
	"testing"
)

func TestFloatsAreZerosOfAnyNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 1 << 10, 1<<19 + 1, 3 << 19} {
		table := Floats(n)
		if len(table) != n || slices.ContainsFunc(table, func(v float32) bool { return v != 0 }) {
			t.Errorf("%d floats: %d, or not zeros", n, len(table))
		}
		for i := range table {
			table[i] = 1 // must not fault
		}
	}
}
