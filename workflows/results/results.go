// Package results reads the outcome of a run from storage and writes it as a table, JSON, CSV, LaTeX,
// Parquet or a page with figures.
package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/reports"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// Results are the results of a run, complete or not.
type Results struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	Cells      []Cell `json:"cells"`
	// Unreadable is the reason why this build cannot read the experiment, or "". If it is set, cells have
	// no parameters, and only the measures in their reports.
	Unreadable string `json:"unreadable,omitempty"`
	// FalseAlarms are the probabilities that limits of audit.fail_if fail by chance.
	FalseAlarms []experiment.FalseAlarm `json:"false_alarms,omitempty"`
	// Unlabelled are the fields in which cells differ but which their labels omit.
	Unlabelled []string `json:"unlabelled,omitempty"`
	// Pictures are the result of LoadPictures, for formats that show them (Format.Pictures).
	Pictures []Picture `json:"-"`
	// Origin is for the same formats. It is nil if unknown.
	Origin *Origin `json:"-"`

	// open holds the keys of missing outputs that cells wait for, and of newer measurements; drawn holds
	// the figures. Both are nil if the results were not read from storage.
	open  []storage.Key
	drawn *drawn
	// chosen lists the table columns that Choose keeps; nil means all.
	chosen []string
}

// Origin is the origin of results, with the facts needed to reproduce them.
type Origin struct {
	// Recipe is the resolved experiment in YAML, or "".
	Recipe              string
	Seeds               []uint64 // distinct, in the order of the cells
	Submitted, Finished time.Time
}

// Cell holds the results of one cell.
type Cell struct {
	// Cell is the name of the cell within the run.
	Cell  string          `json:"cell"`
	Label string          `json:"label"`
	Axes  experiment.Axes `json:"axes"`
	// Parameters are fields of the experiment file by path: common ones, and all below the axes of the grid.
	Parameters experiment.Axes `json:"parameters,omitempty"`
	// Row is the cell's row of replicates, or nil without grid.replicates.
	Row *experiment.Row `json:"row,omitempty"`
	// State is done, failed, cancelled or pending.
	State string `json:"state"`
	// Status equals State. It is for programs that use its older name.
	Status string `json:"status"`
	// Gate is GateFailed if the cell exceeds a limit of audit.fail_if, listed in Breaches, or GateMet if it
	// is within all limits. It is "" without limits, and for an unfinished cell.
	Gate     string   `json:"gate,omitempty"`
	Breaches []string `json:"breaches,omitempty"`
	// Unjudged lists the numbers that limits name but that could not be judged. They do not fail the gate.
	Unjudged []string `json:"unjudged,omitempty"`
	// EpsilonUnderestimates reports whether the true epsilon exceeds that of the papers' convention, for
	// some data or by an audit. It is nil if the convention is proved, or there is no bound.
	EpsilonUnderestimates *bool `json:"epsilon_underestimates,omitempty"`
	// Errors are the reasons for the failure of a failed cell.
	Errors []string `json:"errors,omitempty"`
	// Thresholds are the numbers of users that other thresholds of a failed cell's selection would leave, if known.
	Thresholds []selection.Left `json:"thresholds,omitempty"`
	// Lost explains why the report of a finished cell is missing.
	Lost string `json:"lost,omitempty"`
	// Interim is the newest measurement of a pending cell, or nil before the first.
	Interim *Interim `json:"so_far,omitempty"`
	// Ranking describes the ranking of the canaries of an external model. It is nil for a built-in model.
	Ranking *Ranking `json:"ranking,omitempty"`
	// Undetected are the statements of audits that found nothing, with their power.
	Undetected []Undetected `json:"undetected,omitempty"`
	// ReportedRounds is the last round that a training program reported. It is nil if that is the last of
	// the experiment.
	ReportedRounds *ReportedRounds `json:"told_rounds,omitempty"`
	// Unmeasured reports whether the experiment requests no audit of a model trained by a program.
	Unmeasured bool `json:"unmeasured,omitempty"`
	// Batches is the effect of short batches on the learning rate of a finished cell's clients. It is nil
	// if few clients have less than a batch.
	Batches *training.Batches `json:"batches,omitempty"`
	// Made is the origin of the report. It is zero if the results were not read from storage.
	Made storage.Provenance `json:"-"`
	// Report is nil until the cell is done.
	*reports.Report

	// Setting and Partition name the cell in the papers' terms.
	Setting   string `json:"setting"`
	Partition string `json:"partition"`

	// LossUnit is the unit of the losses, "" if they have none; Unit is that of rounds, "" if unknown.
	LossUnit string    `json:"loss_unit,omitempty"`
	Unit     plan.Unit `json:"unit,omitempty"`

	// open lists the missing outputs that storage may still get, and the nodes whose commits would change
	// the cell's results.
	open []storage.Key
	// undetected holds the statements of Undetected until their power is computed.
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
	planned, err := runs.ReadPlanned(ctx, archive, run)
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

// loadCells reads the cells, several at the same time.
func (r *Results) loadCells(ctx context.Context, archive *storage.Archive, run *runs.Planned) error {
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

// Stale reports whether storage has outputs that a cell lacked when the results were read, or a newer
// measurement of it. The other parts of the results change only with the record of the run.
func (r *Results) Stale(ctx context.Context, archive *storage.Archive) (bool, error) {
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

// roundUnit names a round of the cell's training in texts.
func (c *Cell) roundUnit() string { return string(cmp.Or(c.Unit, plan.Round)) }

func load(ctx context.Context, archive *storage.Archive, run *runs.Planned, i int) (Cell, error) {
	spec, p, planned := &run.Spec.Cells[i], run.Plan, &run.Plan.Cells[i]
	e, readable := &spec.Experiment, run.Unreadable == nil
	cell := Cell{Cell: spec.Name, Label: spec.Label, Axes: spec.Axes, Row: spec.Row, Status: Pending}
	if readable {
		cell.Setting, cell.Partition = e.Training.Setting(), string(e.Data.Partition)
		cell.LossUnit, cell.Unit = lossUnit(e), compile.Unit(&e.Training)
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
			cell.Lost = run.LossReason()
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
		cell.Interim, newer, err = readSoFar(ctx, archive, spec, p.Nodes[planned.Report.Key], planned)
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
	if cell.ReportedRounds, err = readReportedRounds(ctx, archive, e, planned); err != nil {
		return cell, err
	}
	cell.Unmeasured = e.Training.Algorithm == experiment.External && len(e.Audit.Requested()) == 0
	v, err := newViewCell(&cell)
	if err != nil {
		return cell, err
	}
	cell.Gate, cell.Breaches, cell.Unjudged = judge(e.Audit, &v.decoded)
	cell.EpsilonUnderestimates = underestimates(&v.decoded)
	cell.Ranking = newRanking(e, &v.decoded)
	cell.undetected = undetected(spec, v.outcomes)
	return cell, v.addDerived()
}

// underestimates returns Cell.EpsilonUnderestimates.
func underestimates(c *audits.Cell) *bool {
	if c.Privacy == nil {
		return nil
	}
	h := c.Privacy.Headline(c.EpsilonAtLeast())
	return audits.When(h.Convention != nil, h.Underestimates)
}

// finished returns the report of a finished cell, or else the key of an output that storage lacks. Without
// an audit the report does not wait for the model, but the cell does.
func finished(ctx context.Context, archive *storage.Archive, run *runs.Planned, spec *experiment.Cell, planned *plan.Cell) (r *reports.Report, missing storage.Key, err error) {
	done := run.State.Outcomes[spec.Name] == runs.Done
	if done && !run.Recorded {
		has, err := plan.HasReport(ctx, archive, planned.Report.Key, run.State.Finished)
		if err != nil || !has {
			return nil, planned.Report.Key, err
		}
	}
	r = new(reports.Report)
	switch err := readJSON(ctx, archive, planned.Report.Key, reports.CellBlob, r); {
	case errors.Is(err, storage.ErrNotFound):
		return nil, planned.Report.Key, nil
	case err != nil:
		return nil, missing, fmt.Errorf("report: %w", err)
	case len(spec.Experiment.Audit.Requested()) > 0, done: // the model may have been deleted meanwhile
		return r, missing, nil
	}
	there, err := archive.HasCommit(ctx, planned.Model.Key)
	if err != nil || !there {
		return nil, planned.Model.Key, err
	}
	return r, missing, nil
}

// failures returns the errors that made the cell fail, in the order of their nodes' keys.
func failures(run *runs.Run, cell string) []string {
	var out []string
	for _, key := range plan.SortedKeys(run.State.Failures) {
		f := run.State.Failures[key]
		if slices.Contains(f.Cells, cell) {
			out = append(out, fmt.Sprintf("%s: %s", f.Label, f.Error))
		}
	}
	return out
}
