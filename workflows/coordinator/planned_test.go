package coordinator

import (
	"context"
	"errors"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// recordedReports are the reports that the newest recorded plan of a run has.
func (w *world) recordedReports(id string) (reports []storage.Key) {
	p, err := plan.ReadNewestRecord(context.Background(), storage.NewArchive(w.store), id)
	if err != nil {
		w.fail("plan of %s: %v", id, err)
	}
	for i := range p.Cells {
		reports = append(reports, p.Cells[i].Report.Key)
	}
	return reports
}

// plans are the numbers of the recorded plans of a run.
func (w *world) planNumbers(id string) []int {
	numbers, err := storage.NewArchive(w.store).Plans(context.Background(), id)
	if err != nil {
		w.fail("plans of %s: %v", id, err)
	}
	return numbers
}

func TestPlanIsRecordedBeforeWorkBegins(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 3, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5})
	id := w.submit("a", 0)
	w.until(func() bool { r := w.term.records.byID[id]; return r != nil && r.Live() })
	if got := w.recordedReports(id); !slices.Equal(got, []storage.Key{w.plans["a"].Cells[0].Report.Key}) {
		t.Errorf("recorded are the reports %v", got)
	}
	w.lead()
	w.untilPhase(runs.Done, id)
	w.lead()
	w.until(func() bool { return w.knowsClaims(id) })
	if got := w.planNumbers(id); !slices.Equal(got, []int{1}) {
		t.Errorf("a run that went on under the same keys has plans %v, want one", got)
	}
}

// A finished run is not planned again: its claims are those that were recorded.
func TestClaimsOfFinishedRunComeFromRecord(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 3, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5, Keep: []int{2, 5}})
	id := w.submit("a", 0)
	w.untilPhase(runs.Done, id)
	w.lead()
	w.term.Compile = func(context.Context, *runs.Run) (plan.Parts, error) {
		return nil, errors.New("a finished run was planned again")
	}
	w.until(func() bool { return w.knowsClaims(id) })
	if kept := w.term.ledger.On(w.plans["a"].Cells[0].Chain.Recipe).StepsKept(5); !slices.Equal(kept, []int{2, 5}) {
		t.Errorf("it keeps the steps %v, want 2 and 5", kept)
	}
}

// The plan of a run that finished before plans were recorded is recorded by the next leader.
func TestPlanOfFinishedRunIsRecordedLater(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 3, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5})
	id := w.submit("a", 0)
	w.untilPhase(runs.Done, id)
	var names []string
	for _, prefix := range []string{"plan/", "planned/"} {
		for info, err := range w.store.List(t.Context(), "runs/"+id+"/"+prefix) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
	}
	if err := w.store.Delete(t.Context(), names...); err != nil || len(names) != 3 {
		t.Fatalf("%v, %v", names, err)
	}
	w.lead()
	w.until(func() bool { return len(w.planNumbers(id)) == 1 })
	if got := w.recordedReports(id); !slices.Equal(got, []storage.Key{w.plans["a"].Cells[0].Report.Key}) {
		t.Errorf("recorded are the reports %v", got)
	}
}

// knowsClaims reports whether the term knows the claims of a run.
func (w *world) knowsClaims(id string) bool {
	r := w.term.records.byID[id]
	return r != nil && r.claimed
}
