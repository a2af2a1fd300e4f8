package forecast

import (
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

func explain(t *testing.T, archive *storage.Archive, p *plan.Plan) *Explanation {
	t.Helper()
	return must.Get(Explain(t.Context(), p, archive))(t)
}

// training is the only chain of an explained plan.
func trainingChain(x *Explanation) *Chain {
	for _, c := range x.Chains {
		return c
	}
	return nil
}

// execute stores a plan as a run of it leaves it: of each training the kept
// checkpoints, the boundaries with their metric rows, and the open segment's records.
func execute(t *testing.T, archive *storage.Archive, p *plan.Plan) {
	t.Helper()
	plantest.Store(t, archive, p)
	for _, c := range p.Chains {
		for r := 1; r < c.Steps; r++ {
			commit, err := archive.Committed(t.Context(), c.Key(r))
			switch {
			case err != nil || slices.Contains(c.Keep, r):
			case plan.Boundary(r) || plan.SegmentEnd(r) > c.Steps:
				err = archive.DeleteBlobs(t.Context(), commit, tasks.ModelBlob)
			default:
				err = archive.DeleteNode(t.Context(), commit)
			}
			must.Do(t, err)
		}
	}
}

func TestExplainReportsWorkAndReasons(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 330, Keep: []int{100, 250}, Big: true})

	x := explain(t, archive, p)
	if x.Cells[0].Cached || trainingChain(x).StepsToRun() != 330 {
		t.Errorf("an empty store: %+v, %+v", x.Cells[0], trainingChain(x))
	}
	want := Group{Kind: plantest.Standing.Name, ToRun: 5, Why: []string{"no cached result"}}
	if got := x.Cells[0].Groups[1]; got.Kind != want.Kind || got.ToRun != want.ToRun || !slices.Equal(got.Why, want.Why) {
		t.Errorf("group %+v, want %+v", got, want)
	}

	execute(t, archive, p)
	x = explain(t, archive, p)
	if !x.Cells[0].Cached || len(trainingChain(x).Passes) > 0 {
		t.Errorf("after the run: %+v, %+v", x.Cells[0], trainingChain(x))
	}
	if got := x.Nodes[p.Cells[0].Chain.Origin.Key].Disposition; got != NotNeeded {
		t.Errorf("the initial model of a cached training is %q, want %q", got, NotNeeded)
	}

	audits := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 400, Keep: []int{120, 250, 251}, Big: true})
	x = explain(t, archive, audits)
	passes := []Pass{{100, 120}, {250, 251}, {330, 400}}
	if got := trainingChain(x).Passes; !slices.Equal(got, passes) {
		t.Errorf("passes %v, want %v", got, passes)
	}
	why := []string{"replay to 120 from the checkpoint at 100", "replay to 251 from the checkpoint at 250", "train to 400 from the checkpoint at 330"}
	if got := trainingChain(x).Reasons(); !slices.Equal(got, why) {
		t.Errorf("reasons %q, want %q", got, why)
	}
	if got := trainingChain(x).StepsToRun(); got != 20+1+70 {
		t.Errorf("%d steps to run, want 91", got)
	}
}

func TestExplainReportsEvictedBlobs(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	b := plantest.NewBuilder()
	n := b.Node(plantest.Standing, plantest.Params{Salt: "n", Big: true})
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r"}, n), n)
	p := b.Done(t)
	plantest.Store(t, archive, p)
	commit := must.Get(archive.Committed(t.Context(), n.Key))(t)
	must.Do(t, archive.DeleteBlobs(t.Context(), commit))
	if got := explain(t, archive, p).Nodes[n.Key]; got.Disposition != ToRun || got.Why != "evicted: model" {
		t.Errorf("node %+v, want it to run since its model was evicted", got)
	}
}

func TestExplainChangesNothing(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
	must.Do(t, memory.Create(t.Context(), "commits/"+p.Cells[0].Report.Key.String(), []byte(`{"sha256`)))
	if got := explain(t, storage.NewArchive(memory), p).Nodes[p.Cells[0].Report.Key]; got.Why != "its commit is torn" {
		t.Errorf("a torn report: %+v", got)
	}
	n := 0
	for range memory.List(t.Context(), "") {
		n++
	}
	if n != 1 {
		t.Errorf("%d objects are stored, want the torn commit alone", n)
	}
}
