// Package results reads the outcome of a run from storage and writes it as a
// table, JSON, CSV, LaTeX, Parquet or a page with figures.
package results

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/tasks/reports"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/planned"
)

// Results are the outcome of a run, complete or not.
type Results struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	Cells      []Cell `json:"cells"`
	// Unreadable is the reason if this build cannot read the experiment, else "". Cells then have no
	// parameters, and only the measures of their reports.
	Unreadable string `json:"unreadable,omitempty"`
	// FalseAlarms say how likely each limit of audit.fail_if fails by chance.
	FalseAlarms []experiment.FalseAlarm `json:"false_alarms,omitempty"`
	// Unlabelled are the fields in which cells differ and that their labels do not name.
	Unlabelled []string `json:"unlabelled,omitempty"`
	// Pictures are the result of LoadPictures, for formats that ask for them
	// (Format.Pictures).
	Pictures []Picture `json:"-"`
	// Origin is shown by the same formats; nil where it is not known.
	Origin *Origin `json:"-"`

	// open holds the keys of missing outputs that cells wait for, and of newer measurements; drawn,
	// the figures. Both are nil if the results were not read from storage.
	open  []storage.Key
	drawn *drawn
	// chosen are the columns that Choose leaves of tables; nil for all.
	chosen []string
}

// Origin is the origin of results, with the facts that a reader needs to reproduce them.
type Origin struct {
	// Recipe is the resolved experiment, as YAML.
	Recipe              string
	Seeds               []uint64 // distinct, in the order of the cells
	Submitted, Finished time.Time
}

// Cell is the outcome of one cell.
type Cell struct {
	// Cell is its name within the run.
	Cell  string          `json:"cell"`
	Label string          `json:"label"`
	Axes  experiment.Axes `json:"axes"`
	// Parameters are fields of the experiment file by their paths: common ones, and all
	// below the axes of the grid.
	Parameters experiment.Axes `json:"parameters,omitempty"`
	// Row is that of the replicates that the cell is one of; nil without grid.replicates.
	Row *experiment.Row `json:"row,omitempty"`
	// State is done, failed, cancelled or pending.
	State string `json:"state"`
	// Status is the same, for programs that know it by its older name.
	Status string `json:"status"`
	// Gate is GateFailed if the cell is beyond a limit of audit.fail_if, which Breaches name, and
	// GateMet if it is within all; "" without limits, and of a cell that is not done.
	Gate     string   `json:"gate,omitempty"`
	Breaches []string `json:"breaches,omitempty"`
	// Unjudged are numbers that a limit names and that could not be judged, beside others that were.
	Unjudged []string `json:"unjudged,omitempty"`
	// Errors say why a failed cell has failed.
	Errors []string `json:"errors,omitempty"`
	// Thresholds say how many users other thresholds of the selection of a failed cell
	// leave, as far as it has come.
	Thresholds []selection.Left `json:"thresholds,omitempty"`
	// Lost says why the report of a done cell is missing.
	Lost string `json:"lost,omitempty"`
	// SoFar is the newest measurement of a cell that is pending; nil before there is one.
	SoFar *SoFar `json:"so_far,omitempty"`
	// Ranking is that of the canaries of a model that is not ours; nil for one that is.
	Ranking *Ranking `json:"ranking,omitempty"`
	// Undetected are the statements of audits that have found nothing, with their power.
	Undetected []Undetected `json:"undetected,omitempty"`
	// ToldRounds is the last round that a program which trains has told of; nil if that is the last of the
	// experiment.
	ToldRounds *ToldRounds `json:"told_rounds,omitempty"`
	// Unmeasured says that the experiment asks for no audit of a model that a program has trained.
	Unmeasured bool `json:"unmeasured,omitempty"`
	// Batches is the effect of short batches on the learning rate of a done cell's clients; nil if
	// few clients have less than a batch.
	Batches *training.Batches `json:"batches,omitempty"`
	// Made says where and when the report was computed; zero of results that were not read from
	// storage.
	Made storage.Provenance `json:"-"`
	// Report is there once the cell is done.
	*reports.Report

	// Setting and Partition name the cell in the paper's terms.
	Setting   string `json:"setting"`
	Partition string `json:"partition"`

	// open lists the outputs of a cell that storage lacks but may still get, and the nodes whose
	// commits would change the cell's results.
	open []storage.Key
	// undetected are the statements of Undetected, until their power is computed.
	undetected []experiment.Statement
}

// States of a cell.
const (
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
	Pending   = "pending"
)

// Load reads the results of a run. Cells that are not done have no report.
func Load(ctx context.Context, archive *storage.Archive, run *runs.Run) (*Results, error) {
	planned, err := planned.Read(ctx, archive, run)
	if err != nil {
		return nil, err
	}
	r := &Results{Run: run.ID, Experiment: planned.Spec.Name, drawn: new(drawn)}
	if err := r.loadCells(ctx, archive, planned); err != nil {
		return nil, err
	}
	if planned.Unreadable != nil {
		r.Unreadable = planned.Unreadable.Error()
		return r, nil
	}
	r.FalseAlarms = planned.Spec.FalseAlarms()
	r.Unlabelled = planned.Spec.Unlabelled()
	r.addParameters(planned.Spec)
	return r, nil
}

// loadCells reads several cells at the same time.
func (r *Results) loadCells(ctx context.Context, archive *storage.Archive, run *planned.Run) error {
	p := run.Plan
	r.Cells = make([]Cell, len(p.Cells))
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i := range p.Cells {
		group.Go(func() (err error) {
			r.Cells[i], err = load(ctx, archive, run, i)
			r.Cells[i].State = r.Cells[i].Status
			if err != nil {
				return fmt.Errorf("run %s, cell %s: %w", run.ID, p.Cells[i].Name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	for i := range r.Cells {
		r.open = append(r.open, r.Cells[i].open...)
	}
	r.addPowers()
	return err
}

// Grown reports whether storage has outputs that a cell lacked when the results were read, or
// a newer measurement of it. Other parts of the results change with the record of the run
// alone.
func (r *Results) Grown(ctx context.Context, archive *storage.Archive) (bool, error) {
	var grown atomic.Bool
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, key := range r.open {
		group.Go(func() error {
			there, err := archive.HasCommit(ctx, key)
			if there {
				grown.Store(true)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, fmt.Errorf("results of run %s: %w", r.Run, err)
	}
	return grown.Load(), nil
}

func load(ctx context.Context, archive *storage.Archive, run *planned.Run, i int) (Cell, error) {
	spec, p, planned := &run.Spec.Cells[i], run.Plan, &run.Plan.Cells[i]
	e, readable := &spec.Experiment, run.Unreadable == nil
	cell := Cell{Cell: spec.Name, Label: spec.Label, Axes: spec.Axes, Row: spec.Row, Status: Pending}
	if readable {
		cell.Setting, cell.Partition = e.Training.Setting(), string(e.Data.Partition)
	}
	if cell.Errors = failures(run.Run, spec.Name); len(cell.Errors) > 0 {
		var err error
		cell.Status = Failed
		cell.Thresholds, err = thresholds(ctx, archive, p, planned)
		return cell, err
	}
	report, missing, err := finished(ctx, archive, run, spec, planned)
	switch {
	case err != nil:
		return cell, err
	case report == nil:
		cell.open = []storage.Key{missing}
		if run.State.Outcomes[spec.Name] == runs.Done {
			cell.Lost = run.Lost()
			return cell, nil
		}
		if run.State.Phase == runs.Cancelled {
			cell.Status = Cancelled
			return cell, nil
		}
		if !readable {
			return cell, nil
		}
		var newer []storage.Key
		cell.SoFar, newer, err = readSoFar(ctx, archive, spec, p.Nodes[planned.Report.Key], planned)
		cell.open = append(cell.open, newer...)
		return cell, err
	}
	cell.Status, cell.Report = Done, report
	if commit, err := archive.Committed(ctx, planned.Report.Key); err == nil {
		cell.Made = commit.Provenance
	}
	if !readable {
		return cell, nil
	}
	if err := addLosses(ctx, archive, e, planned, report); err != nil {
		return cell, err
	}
	if err := addOutcomes(ctx, archive, p.Nodes[planned.Report.Key], report); err != nil {
		return cell, err
	}
	if cell.Batches, err = readBatches(ctx, archive, e, planned); err != nil {
		return cell, err
	}
	if cell.ToldRounds, err = readTold(ctx, archive, e, planned); err != nil {
		return cell, err
	}
	cell.Unmeasured = e.Training.Algorithm == experiment.External && len(e.Audit.Asked()) == 0
	v, err := newViewCell(&cell)
	if err != nil {
		return cell, err
	}
	cell.Gate, cell.Breaches, cell.Unjudged = judge(e.Audit, &v.decoded)
	cell.Ranking = newRanking(e, &v.decoded)
	cell.undetected = undetected(spec, v.outcomes)
	return cell, v.addDerived()
}

// finished returns the report of a cell that is done, or else the outputs that storage lacks.
// Without an audit the report does not wait for the model, and the cell does.
func finished(ctx context.Context, archive *storage.Archive, run *planned.Run, spec *experiment.Cell, planned *plan.Cell) (r *reports.Report, missing storage.Key, err error) {
	done := run.State.Outcomes[spec.Name] == runs.Done
	if done && !run.Recorded {
		has, err := plan.HasReport(ctx, archive, planned.Report.Key, run.State.Finished)
		if err != nil || !has {
			return nil, planned.Report.Key, err
		}
	}
	r, err = readReport(ctx, archive, planned.Report.Key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, planned.Report.Key, nil
	case err != nil:
		return nil, missing, err
	case len(spec.Experiment.Audit.Asked()) > 0, done: // the model may have been deleted since
		return r, missing, nil
	}
	there, err := archive.HasCommit(ctx, planned.Model.Key)
	if err != nil || !there {
		return nil, planned.Model.Key, err
	}
	return r, missing, nil
}

func readReport(ctx context.Context, archive *storage.Archive, key storage.Key) (*reports.Report, error) {
	var report reports.Report
	if err := readJSON(ctx, archive, key, reports.CellBlob, &report); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return &report, nil
}

// failures are the errors that took the cell, in the order of their nodes' keys.
func failures(run *runs.Run, cell string) []string {
	var out []string
	for _, key := range plan.SortedKeys(run.State.Failures) {
		f := run.State.Failures[key]
		for _, name := range f.Cells {
			if name == cell {
				out = append(out, fmt.Sprintf("%s: %s", f.Label, f.Error))
			}
		}
	}
	return out
}
