package control_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/control"
)

// Two cells that differ in their training alone share their data, which each of them reads.
const twoTrainings = `
training: {rounds: 250, cohort: 2}
grid: {axes: {training.cohort: [2, 3]}}
`

func (x *abandoned) lineage(cell string, key storage.Key) *control.Lineage {
	x.t.Helper()
	found := must.Get(control.New(x.archive, nil, nil).Lineage(x.t.Context(), x.run, cell, key.String()[:16]))(x.t)
	if found.Node.Key != key {
		x.t.Fatalf("asked for %s, got %s", key, found.Node.Key)
	}
	return found
}

// readersOf are told as "label: its cells", in order.
func readersOf(x *control.Lineage) []string {
	var told []string
	for _, r := range x.Readers {
		told = append(told, fmt.Sprintf("%s as %s: %s", r.Label, r.Input, strings.Join(r.Cells, " ")))
	}
	return told
}

func TestLineageListsReadersInAllCells(t *testing.T) {
	t.Parallel()
	x := abandon(t, twoTrainings)
	x.reach(0, 120)
	first, second := &x.plan.Cells[0], &x.plan.Cells[1]
	shards := x.lineage("c02", first.Shards.Key)
	if want := []string{"c01", "c02"}; !slices.Equal(shards.Node.Cells, want) {
		t.Errorf("the text that both train on is needed by %v, want %v", shards.Node.Cells, want)
	}
	var trainings []string
	for _, r := range shards.Readers {
		if r.Training {
			trainings = append(trainings, r.Cells...)
			if r.Committed != (r.Cells[0] == "c01") {
				t.Errorf("the training of %v has begun: %v", r.Cells, r.Committed)
			}
		}
	}
	if want := []string{"c01", "c02"}; !slices.Equal(trainings, want) || shards.ReadersTotal != len(shards.Readers) {
		t.Errorf("it is read by the trainings of %v, %d readers of %d", trainings, len(shards.Readers), shards.ReadersTotal)
	}

	step := x.lineage("c01", first.Chain.Key(110))
	if !step.Node.Committed || step.Node.Step != 110 || !slices.Equal(step.Node.Cells, []string{"c01"}) {
		t.Errorf("step 110 is %+v", step.Node)
	}
	if told := readersOf(step); len(told) != 1 || told[0] != "training step 111 of 250 as previous: c01" {
		t.Errorf("step 110 is read by %q, want the next", told)
	}
	if report := x.lineage("c02", second.Report.Key); len(report.Readers) > 0 || len(report.Node.Inputs) == 0 {
		t.Errorf("the report of a cell is read by %q", readersOf(report))
	}
}

// Both cells train by one chain, of which the first wants 100 steps.
func TestLineageKnowsNoStepsOfALongerTraining(t *testing.T) {
	t.Parallel()
	x := abandon(t, "\ntraining: {cohort: 2}\ngrid: {axes: {training.rounds: [100, 250]}}\n")
	x.reach(1, 230)
	step := x.plan.Cells[1].Chain.Key(220)
	if x.plan.Cells[0].Chain != x.plan.Cells[1].Chain || x.lineage("c02", step).Node.Step != 220 {
		t.Fatal("the cells share no chain with a step 220")
	}
	if _, err := control.New(x.archive, nil, nil).Lineage(t.Context(), x.run, "c01", step.String()); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("step 220 of a training of 100 steps: %v", err)
	}
}

func TestLineageOfUnknownNodeFails(t *testing.T) {
	t.Parallel()
	x := abandon(t, twoTrainings)
	api := control.New(x.archive, nil, nil)
	if _, err := api.Lineage(t.Context(), x.run, "c01", x.plan.Cells[1].Report.Key.String()); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the report of another cell: %v", err)
	}
	if _, err := api.Lineage(t.Context(), x.run, "c09", "ab"); !errors.Is(err, control.ErrInput) {
		t.Errorf("no cell: %v", err)
	}
}

// The answer for a large grid is bounded, and so are the requests to the store.
func TestLineageOfLargeGridIsBounded(t *testing.T) {
	t.Parallel()
	cohorts := make([]string, 1000)
	for i := range cohorts {
		cohorts[i] = fmt.Sprint(i + 1)
	}
	x := abandon(t, "training: {rounds: 500}\ngrid: {axes: {training.cohort: ["+strings.Join(cohorts, ", ")+"]}}")
	before, began := x.asked(), time.Now()
	found := x.lineage(x.plan.Cells[500].Name, x.plan.Cells[0].Shards.Key)
	if len(found.Node.Cells) != 1000 || len(found.Readers) != control.MaxReaders || found.ReadersTotal < 1000 {
		t.Errorf("%d cells, %d readers of %d", len(found.Node.Cells), len(found.Readers), found.ReadersTotal)
	}
	if asked := x.asked() - before; asked > 3*control.MaxReaders {
		t.Errorf("the store was asked %d times", asked)
	}
	t.Logf("took %v", time.Since(began))
}

// A client that has asked before gets only possible changes.
func TestNodeQueryListsOnlyChanges(t *testing.T) {
	t.Parallel()
	x := abandon(t, twoTrainings)
	x.reach(0, 120)
	api := control.New(x.archive, nil, nil)
	cell := &x.plan.Cells[0]
	list := func(changes *control.NodeChanges) []string {
		t.Helper()
		nodes := must.Get(api.Nodes(t.Context(), x.run, control.NodeQuery{Cell: cell.Name, Changes: changes}))(t)
		told := []string{}
		for _, n := range nodes {
			told = append(told, n.Label)
		}
		return told
	}
	report := x.plan.Nodes[cell.Report.Key]
	if all := list(nil); len(all) < 20 {
		t.Errorf("of all nodes there are %q", all)
	}
	if got := list(&control.NodeChanges{Keys: []string{report.Key.String()[:16]}, After: 200}); !slices.Equal(got, []string{report.Label}) {
		t.Errorf("asked for the report: %q", got)
	}
	for _, label := range list(&control.NodeChanges{After: 119}) {
		if !strings.HasPrefix(label, "training step 120") {
			t.Errorf("asked for steps after 119: %q", label)
		}
	}
	if got := list(&control.NodeChanges{After: 250}); len(got) > 0 {
		t.Errorf("asked for nothing: %q", got)
	}
	for _, which := range []control.NodeQuery{
		{Changes: &control.NodeChanges{}},
		{Cell: "c01", Changes: &control.NodeChanges{Keys: make([]string, control.MaxNodeKeys+1)}},
		{Cell: "c09"},
	} {
		if _, err := api.Nodes(t.Context(), x.run, which); !errors.Is(err, control.ErrInput) {
			t.Errorf("%+v: %v", which, err)
		}
	}
}
