package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"coalmine/internal/lists"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// recorded holds the fields of a run's record that a status shows. They never change. Reading the resolved
// experiment of a large grid, of several megabytes, takes a second.
type recorded struct {
	submitted time.Time
	spec      runs.Spec // without the experiment
	cells     []status.Cell
	head      *experiment.Spec // with the first cells only, for a glance at storage
	err       error            // why the experiment or its outputs cannot be read, or nil
	gated     bool             // some cell has limits of audit.fail_if
	verdict   verdict
}

func (l *Local) newRecorded(ctx context.Context, run *runs.Run) *recorded {
	r := &recorded{submitted: run.State.Submitted, spec: run.Spec}
	r.spec.Experiment = nil
	spec, err := runs.Experiment(run)
	if err != nil {
		r.err = err
		r.cells = l.plannedCells(ctx, run)
		return r
	}
	r.gated = slices.ContainsFunc(spec.Cells, func(c experiment.Cell) bool { return c.Experiment.Audit != nil && c.Experiment.Audit.FailIf != nil })
	head := *spec
	head.Cells = slices.Clone(spec.Cells[:min(len(spec.Cells), glanceCells)])
	if lost, err := runs.CellUnderOtherKey(ctx, l.archive, run, spec); err == nil && lost != "" {
		r.err = fmt.Errorf("cell %s: %s", lost, plan.LostReport)
	}
	r.head, r.cells = &head, make([]status.Cell, len(spec.Cells))
	for i := range spec.Cells {
		c := &spec.Cells[i]
		r.cells[i] = status.Cell{
			Cell: c.Name, Label: c.Label, Phase: runs.Queued,
			Steps: c.Experiment.Training.Rounds, Unit: compile.Unit(&c.Experiment.Training), StepRounds: 1,
		}
	}
	return r
}

// plannedCells returns the cells of a run with an unreadable experiment, with the fields in the record of its plan.
func (l *Local) plannedCells(ctx context.Context, run *runs.Run) []status.Cell {
	p, err := plan.ReadNewestRecord(ctx, l.archive, run.ID)
	if err != nil {
		return nil
	}
	return lists.Map(p.Cells, func(c plan.Cell) status.Cell {
		return status.Cell{Cell: c.Name, Label: c.Label, Phase: runs.Queued, Steps: c.Rounds(), Unit: c.Unit, StepRounds: 1}
	})
}

// specOf returns the experiment of a run or, if it cannot be read, the fields in the record of its plan.
func (l *Local) specOf(ctx context.Context, run *runs.Run) (*experiment.Spec, error) {
	spec, err := runs.Experiment(run)
	if err == nil {
		return spec, nil
	}
	p, none := plan.ReadNewestRecord(ctx, l.archive, run.ID)
	if none != nil {
		return nil, err
	}
	return runs.Outline(run, p), nil
}

// records caches the fields of runs' records that statuses show.
type records struct {
	mu    sync.Mutex
	known map[string]*recorded // by run
}

// find returns the entry of a run with this time of submission, or nil. The time matters because the id of
// a removed run may be reused.
func (rs *records) find(run string, submitted time.Time) *recorded {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.known[run]; r != nil && r.submitted.Equal(submitted) {
		return r
	}
	return nil
}

// recorded returns the fields that a status shows, from the record of a run that was read with its experiment.
func (l *Local) recorded(ctx context.Context, run *runs.Run) *recorded {
	rs := &l.records
	if r := rs.find(run.ID, run.State.Submitted); r != nil {
		return r
	}
	r := l.newRecorded(ctx, run)
	if r.submitted.IsZero() {
		return r // an interrupted submission
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.known == nil {
		rs.known = make(map[string]*recorded)
	}
	rs.known[run.ID] = r
	return r
}

// keep forgets all other runs.
func (rs *records) keep(all map[string]*recorded) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.DeleteFunc(rs.known, func(run string, _ *recorded) bool { return all[run] == nil })
}

// readable returns the runs with readable records, the newest first, those with unreadable records, and the
// fields that statuses show. Runs with cached fields come without their experiment.
func (l *Local) readable(ctx context.Context) (all []*runs.Run, unreadable []runs.Unreadable, shown map[string]*recorded, err error) {
	shown = make(map[string]*recorded)
	var mu sync.Mutex // of shown
	show := func(id string, r *recorded) {
		mu.Lock()
		defer mu.Unlock()
		shown[id] = r
	}
	all, unreadable, err = l.runs.ReadableBy(ctx, func(ctx context.Context, id string) (*runs.Run, error) {
		run, err := l.runs.WithoutSpec(ctx, id)
		if err != nil {
			return nil, err
		}
		if r := l.records.find(id, run.State.Submitted); r != nil {
			run.Spec = r.spec
			show(id, r)
			return run, nil
		}
		if err := l.runs.AddSpec(ctx, run); err != nil {
			return nil, err
		}
		show(id, l.recorded(ctx, run))
		return run, nil
	})
	if err == nil {
		l.records.keep(shown)
	}
	return all, unreadable, shown, err
}

// stored returns a run's status from its record.
func stored(run *runs.Run, record *recorded) *status.Run {
	state := &run.State
	s := &status.Run{
		Run: run.ID, Name: run.Spec.Name, Phase: state.Phase, Error: state.Error,
		Submitted: state.Submitted, Started: state.Started, Finished: state.Finished,
		Cells: []status.Cell{}, Workers: []status.Worker{},
	}
	for _, key := range plan.SortedKeys(state.Failures) {
		s.Failures = append(s.Failures, status.Failure{Key: key, Failure: state.Failures[key]})
	}
	s.Nodes.Failed = len(s.Failures)
	if record.err != nil {
		s.Error = cmp.Or(s.Error, record.err.Error())
	}
	s.Cells = append(s.Cells, record.cells...)
	failed := state.FailedCells()
	for i := range s.Cells {
		become(&s.Cells[i], state, failed)
	}
	return s
}

func become(c *status.Cell, state *runs.State, failed map[string]bool) {
	if outcome, ended := state.Outcomes[c.Cell]; ended {
		c.Phase = outcome
	} else if failed[c.Cell] {
		c.Phase = runs.Failed
	} else if state.Phase == runs.Cancelled {
		c.Phase = runs.Cancelled
	}
	if c.Phase == runs.Done {
		c.Step = c.Steps
	}
}

// ErrKey means that a run of the same experiment waits for another secret key, or is done with it.
var ErrKey = errors.New("a secret key is missing")

// CheckKeys returns an error if a done or unfinished run differs from an experiment only in its secret key:
// that key was lost or replaced, and a second training under another key would cost as much privacy as the
// first. It returns nil if some run has the same keys, because that run is continued or cached.
func CheckKeys(ctx context.Context, api API, e *experiment.Spec) error {
	keys := e.Keys()
	if len(keys) == 0 {
		return nil
	}
	all, err := api.List(ctx)
	if err != nil {
		return err
	}
	var missing error
	for _, s := range all {
		if s.Phase == runs.Failed || s.Phase == runs.Cancelled || s.Name != e.Name {
			continue
		}
		other, err := api.Experiment(ctx, s.Run)
		if err != nil {
			return err
		}
		if !e.SameButKeys(other) {
			continue
		}
		waits := other.Keys()
		if slices.Equal(waits, keys) {
			return nil
		}
		needs, cancel := "needs the key", "cancel that run, or "
		if s.Phase == runs.Done {
			needs, cancel = "used the key", ""
		}
		missing = fmt.Errorf("%w: run %s of this experiment %s %s; restore the key in the file of --secret-key and repeat the command, or %sstart a run with its own key and epsilon with --new",
			ErrKey, s.Run, needs, strings.Join(waits, ", "), cancel)
	}
	return missing
}
