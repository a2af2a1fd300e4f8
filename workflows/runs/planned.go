package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
)

// Planned is a run with its plan: the recorded plan or, for a run from before plans were recorded, the plan
// that this build compiles from the experiment. Code that shows the outputs of a run uses Planned, so that
// it finds them even if this build would plan the experiment differently or cannot read it.
type Planned struct {
	*Run
	Plan *plan.Plan
	// Spec is the experiment, with the cells of the plan in the same order.
	Spec *experiment.Spec
	// Recorded reports whether the plan is recorded.
	Recorded bool
	// Unreadable is the reason why this build cannot read the experiment, or nil. If it is set, Spec has
	// only the fields in the record of the plan: names, labels, axes and rows.
	Unreadable error
}

// PlanOf returns the plan of a run. An error marked tasks.Permanent means that no plan is recorded
// and the experiment cannot be compiled.
func PlanOf(ctx context.Context, archive *storage.Archive, run *Run) (*plan.Plan, error) {
	p, err := plan.ReadNewestRecord(ctx, archive, run.ID)
	if errors.Is(err, storage.ErrNotFound) {
		return Compile(ctx, run)
	}
	return p, err
}

// ReadPlanned returns a run with its plan and its experiment.
func ReadPlanned(ctx context.Context, archive *storage.Archive, run *Run) (*Planned, error) {
	p, err := plan.ReadNewestRecord(ctx, archive, run.ID)
	if errors.Is(err, storage.ErrNotFound) {
		spec, p, err := experimentAndPlan(run)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", run.ID, err)
		}
		return &Planned{Run: run, Plan: p, Spec: spec}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	r := &Planned{Run: run, Plan: p, Recorded: true}
	if r.Spec, r.Unreadable = Experiment(run); r.Unreadable == nil {
		r.Unreadable = fits(r.Spec, p)
	}
	if r.Unreadable != nil {
		r.Spec = Outline(run, p)
	}
	return r, nil
}

// fits compares the cells of an experiment with those of the recorded plan.
func fits(spec *experiment.Spec, p *plan.Plan) error {
	if len(spec.Cells) != len(p.Cells) {
		return fmt.Errorf("the experiment has %d cells, but the recorded plan has %d", len(spec.Cells), len(p.Cells))
	}
	for i := range p.Cells {
		if spec.Cells[i].Name != p.Cells[i].Name {
			return fmt.Errorf("cell %d of the experiment is %.40q, but %.40q in the recorded plan", i, spec.Cells[i].Name, p.Cells[i].Name)
		}
	}
	return nil
}

// Outline returns the experiment with the fields that a recorded plan has.
func Outline(run *Run, p *plan.Plan) *experiment.Spec {
	spec := &experiment.Spec{Name: run.Spec.Name, Cells: make([]experiment.Cell, len(p.Cells))}
	for i := range p.Cells {
		c := &p.Cells[i]
		cell := experiment.Cell{Index: i, Name: c.Name, Label: c.Label}
		if json.Unmarshal(c.Axes, &cell.Axes) != nil {
			cell.Axes = nil // this build cannot read their form either
		}
		if json.Unmarshal(c.Row, &cell.Row) != nil {
			cell.Row = nil
		}
		spec.Cells[i] = cell
	}
	return spec
}

// LossReason explains why the report of a done cell may be missing from the store.
func (r *Planned) LossReason() string {
	if r.Recorded {
		return "it is done, but its report is gone from the store: coalmine retry " + r.ID + " recomputes it"
	}
	return plan.LostReport
}

// CheckReports returns an error that wraps storage.ErrNotFound if a cell is done and the store lacks its report under
// the key of this build. Outputs under the keys of this build then belong to a later run of the experiment.
func (r *Planned) CheckReports(ctx context.Context, archive *storage.Archive, cell *plan.Cell) error {
	if r.Recorded || r.State.Outcomes[cell.Name] != Done {
		return nil
	}
	has, err := plan.HasReport(ctx, archive, cell.Report.Key, r.State.Finished)
	if err != nil || has {
		return err
	}
	return fmt.Errorf("run %s, cell %s: %w: %s", r.ID, cell.Name, storage.ErrNotFound, plan.LostReport)
}

// CellUnderOtherKey returns the first done cell of a finished run without a recorded plan, if the store lacks
// the cell's report under the key of this build (see plan.LostReport); else "".
func CellUnderOtherKey(ctx context.Context, archive *storage.Archive, run *Run, spec *experiment.Spec) (cell string, err error) {
	i := slices.IndexFunc(spec.Cells, func(c experiment.Cell) bool { return run.State.Outcomes[c.Name] == Done })
	if i < 0 {
		return "", nil
	}
	numbers, err := archive.Plans(ctx, run.ID)
	if err != nil || len(numbers) > 0 {
		return "", err
	}
	one := *spec
	one.Cells = spec.Cells[i : i+1]
	p, err := compile.Plan(&one)
	if err != nil {
		return "", err
	}
	there, err := plan.HasReport(ctx, archive, p.Cells[0].Report.Key, run.State.Finished)
	if err != nil || there {
		return "", err
	}
	return spec.Cells[i].Name, nil
}

// Readable returns an error if the experiment cannot be read. It has the reason and the name of the result
// that needs the experiment.
func (r *Planned) Readable(result string) error {
	if r.Unreadable == nil {
		return nil
	}
	return fmt.Errorf("run %s: %s needs its experiment: %w", r.ID, result, r.Unreadable)
}

// Experiment reads the experiment of a recorded run. The error names the build that wrote it.
func Experiment(run *Run) (*experiment.Spec, error) {
	spec, err := experiment.ReadSpec(run.Spec.Experiment)
	if err != nil {
		return nil, SpecFormat.Explain(run.Spec.Stamp, err)
	}
	return spec, nil
}

// experimentAndPlan reads the experiment of a recorded run, and compiles it.
func experimentAndPlan(run *Run) (*experiment.Spec, *plan.Plan, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, nil, err
	}
	p, err := compile.Plan(spec)
	return spec, p, err
}

// Compile makes the plan of a recorded run. If the record does not compile, the error is marked tasks.Permanent.
func Compile(_ context.Context, run *Run) (*plan.Plan, error) {
	_, p, err := experimentAndPlan(run)
	return p, tasks.Permanent(err)
}

// CompileParts makes the plan of a recorded run as Compile does, some cells at a time.
func CompileParts(_ context.Context, run *Run) (plan.Parts, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	parts, err := compile.Parts(spec)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	return func() (*plan.Plan, error) {
		p, err := parts()
		if err != nil && err != io.EOF {
			err = tasks.Permanent(err)
		}
		return p, err
	}, nil
}

// Sources returns the files from which the data of a recorded run was imported, each once.
func Sources(run *Run) ([]storage.Digest, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, err
	}
	return compile.Sources(spec)
}
