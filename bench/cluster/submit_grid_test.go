package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

func TestGridCellsShareTextOnly(t *testing.T) {
	t.Parallel()
	file := must.Get(writeGrid(t.TempDir(), 3))(t)
	s := must.Get(submission.PrepareFile(t.Context(), file, must.Get(os.ReadFile(file))(t), experiment.Options{}, sources.LocalFinder{Folder: filepath.Dir(file)}, nil))(t)
	p := must.Get(compile.Plan(s.Spec))(t)
	if cells, each := len(p.Cells), (len(p.Nodes)-1)/3; cells != 3 || len(p.Nodes) != 1+3*each || each < 20 {
		t.Errorf("%d cells of %d nodes in all, want 3 of at least 20 each and one that they share", cells, len(p.Nodes))
	}
}
