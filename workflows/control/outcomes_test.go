package control_test

import (
	"fmt"
	"sync"
	"testing"

	"coalmine/storage"
	"coalmine/tasks/reports"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

// report stores the report of a cell, which says nothing.
func (x *abandoned) report(cell int) {
	x.t.Helper()
	text := []byte("{}")
	blob := storage.Blob{Name: reports.CellBlob, Digest: storage.DigestOf(text), Size: int64(len(text)), Inline: text}
	c := &storage.Commit{Key: x.plan.Cells[cell].Report.Key, Kind: "test", KindVersion: 1, Attempt: "1", Blobs: []storage.Blob{blob}}
	if _, _, err := x.archive.Commit(x.t.Context(), c); err != nil {
		x.t.Fatal(err)
	}
}

// train commits the model of a cell.
func (x *abandoned) train(cell int) {
	x.t.Helper()
	c := &storage.Commit{Key: x.plan.Cells[cell].Model.Key, Kind: "test", KindVersion: 1, Attempt: "1"}
	if _, _, err := x.archive.Commit(x.t.Context(), c); err != nil {
		x.t.Fatal(err)
	}
}

// states are those of the cells in the results of a run, which must equal those of an API
// without a cache.
func (x *abandoned) states(api control.API) (states []string, asked int) {
	x.t.Helper()
	before := x.asked()
	found, err := api.Results(x.t.Context(), x.run)
	asked = x.asked() - before
	fresh, err2 := control.New(x.archive, nil, nil).Results(x.t.Context(), x.run)
	if err != nil || err2 != nil {
		x.t.Fatal(err, err2)
	}
	for i, c := range found.Cells {
		states = append(states, c.State)
		if c.State != fresh.Cells[i].State || fmt.Sprint(c.Errors) != fmt.Sprint(fresh.Cells[i].Errors) {
			x.t.Errorf("cell %s is remembered as %s %v, storage has %s %v", c.Cell, c.State, c.Errors, fresh.Cells[i].State, fresh.Cells[i].Errors)
		}
	}
	return states, asked
}

func TestResultsAreReadAgainAfterProgress(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	api := control.New(x.archive, nil, nil)
	expect := func(want ...string) (asked int) {
		t.Helper()
		states, asked := x.states(api)
		if fmt.Sprint(states) != fmt.Sprint(want) {
			t.Errorf("cells are %v, want %v", states, want)
		}
		return asked
	}
	expect(results.Pending, results.Pending, results.Pending, results.Pending)
	x.report(0)
	x.report(2)
	expect(results.Pending, results.Pending, results.Pending, results.Pending) // nothing is trained
	x.train(0)
	x.train(2)
	first := expect(results.Done, results.Pending, results.Done, results.Pending)
	again := expect(results.Done, results.Pending, results.Done, results.Pending)
	if again >= first {
		t.Errorf("%d questions for results that are known, and %d to read them", again, first)
	}
	x.log(runs.Entry{Kind: runs.NodeFailed, Key: &x.plan.Cells[1].Report.Key, Error: "broken", Cells: []string{x.plan.Cells[1].Name}})
	expect(results.Done, results.Failed, results.Done, results.Pending)
	x.report(3)
	x.train(3)
	expect(results.Done, results.Failed, results.Done, results.Done)
	x.log(runs.Entry{Kind: runs.NodeFailed, Key: &x.plan.Cells[2].Model.Key, Error: "diverged", Cells: []string{x.plan.Cells[2].Name}})
	expect(results.Done, results.Failed, results.Failed, results.Done) // another run may have finished it since; this one has given it up
}

// Many may ask at once, and a caller that changes its results does not change the
// others'.
func TestCachedResultsAreSharedSafely(t *testing.T) {
	t.Parallel()
	x := abandon(t, fourCells)
	x.report(0)
	api := control.New(x.archive, nil, nil)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			r, err := api.Results(t.Context(), x.run)
			if err != nil || r.Pictures != nil {
				t.Errorf("the results have %d pictures of others, %v", len(r.Pictures), err)
				return
			}
			r.Pictures = []results.Picture{{}}
			if _, err := r.Figures(); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}
