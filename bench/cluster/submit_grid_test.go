package cluster

import (
	"testing"

	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

func TestTheGridIsAnExperimentOfSeedsThatShareTheirTextAlone(t *testing.T) {
	t.Parallel()
	file, err := writeGrid(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := submission.Prepare(t.Context(), file, experiment.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if cells, each := len(p.Cells), (len(p.Nodes)-1)/3; cells != 3 || len(p.Nodes) != 1+3*each || each < 20 {
		t.Errorf("%d cells of %d nodes in all, want 3 of at least 20 each and one that they share", cells, len(p.Nodes))
	}
}
