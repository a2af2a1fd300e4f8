package control

import (
	"testing"
	"time"

	"coalmine/workflows/runs"
)

// The cache has a bound: the least recently used entry is evicted, and an entry larger
// than the bound is not kept.
func TestResultsCacheEvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	var x outcomes
	ask := func(run string, cells int) *outcome {
		o := x.find(&runs.Run{ID: run})
		x.shrink(o, cells)
		return o
	}
	first := ask("first", 1000)
	second := ask("second", 900)
	if ask("first", 1000) != first || ask("second", 900) != second || ask("first", 1000) != first {
		t.Error("runs that fit into the memory were forgotten")
	}
	ask("third", 900)
	if ask("first", 1000) != first {
		t.Error("the run was forgotten that was asked for later")
	}
	if ask("second", 900) == second {
		t.Error("the run is remembered that was asked for longest ago")
	}
	large := ask("large", rememberedCells+1)
	if len(x.known) > 0 || ask("large", rememberedCells+1) == large {
		t.Errorf("%d runs are remembered beside one that is larger than the bound", len(x.known))
	}
}

// The id of a removed run may be taken again: that is another run.
func TestResultsCacheDistinguishesReusedIDs(t *testing.T) {
	t.Parallel()
	var x outcomes
	old := x.find(&runs.Run{ID: "a"})
	if again := x.find(&runs.Run{ID: "a", State: runs.State{Submitted: time.Unix(1, 0)}}); again == old {
		t.Error("the results of a run that is gone are taken for those of another")
	}
}
