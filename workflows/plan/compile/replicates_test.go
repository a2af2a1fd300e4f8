package compile_test

import (
	"testing"

	"coalmine/storage"
)

// A further seed computes nothing again: every node of the plan with fewer is in the one with
// more, and the cells of a seed are those of a file with this seed and no replicates.
func TestFurtherSeedReusesAllNodes(t *testing.T) {
	t.Parallel()
	source := storage.DigestOf([]byte("text"))
	two, three := compiled(t, small, source, "grid.replicates=2"), compiled(t, small, source, "grid.replicates=3")
	for key, node := range two.Nodes {
		if three.Nodes[key] == nil {
			t.Errorf("%s is another node with a third seed", node.Label)
		}
	}
	if len(two.Cells) != 12 || len(three.Cells) != 18 || len(three.Nodes) <= len(two.Nodes) {
		t.Fatalf("%d and %d cells of %d and %d nodes", len(two.Cells), len(three.Cells), len(two.Nodes), len(three.Nodes))
	}
	for i, c := range compiled(t, small, source, "seed=3").Cells {
		if got := three.Cells[12+i]; got.Report.Key != c.Report.Key || got.Model.Key != c.Model.Key {
			t.Errorf("%s is not the cell of a file with its seed, %s", got.Label, c.Label)
		}
	}
}
