package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Experiment reads the experiment of a recorded run. The error names the build that wrote it.
func Experiment(run *runs.Run) (*experiment.Spec, error) {
	spec, err := experiment.ReadSpec(run.Spec.Experiment)
	if err != nil {
		return nil, runs.SpecFormat.Explain(run.Spec.Stamp, err)
	}
	return spec, nil
}

// Record reads the experiment of a recorded run, and makes its plan.
func Record(run *runs.Run) (*experiment.Spec, *plan.Plan, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, nil, err
	}
	p, err := Plan(spec)
	return spec, p, err
}

// Run makes the plan of a recorded run. A record that does not compile never
// will, so its error is marked tasks.Permanent.
func Run(_ context.Context, run *runs.Run) (*plan.Plan, error) {
	_, p, err := Record(run)
	return p, tasks.Permanent(err)
}

// RunParts makes the plan of a recorded run as Run does, some cells at a time.
func RunParts(_ context.Context, run *runs.Run) (plan.Parts, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	parts, err := Parts(spec)
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

// Sources names the files that the data of a recorded run was imported from, each once.
func Sources(run *runs.Run) ([]storage.Digest, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, err
	}
	return SpecSources(spec)
}

// SpecSources does so for an experiment.
func SpecSources(spec *experiment.Spec) ([]storage.Digest, error) {
	var sources []storage.Digest
	seen := map[storage.Digest]bool{}
	for i := range spec.Cells {
		files, err := cellFiles(spec, &spec.Cells[i].Experiment)
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", spec.Cells[i].Name, err)
		}
		for _, digest := range files {
			if !seen[digest] {
				seen[digest] = true
				sources = append(sources, digest)
			}
		}
	}
	return sources, nil
}

// cellFiles are the files of all sources of a cell.
func cellFiles(spec *experiment.Spec, e *experiment.Experiment) ([]storage.Digest, error) {
	files, err := spec.Files(&e.Data)
	second, missing := spec.SecondFiles(&e.Data)
	all, err := slices.Concat(append(second[:], files)...), errors.Join(err, missing)
	ofAudits, missing := spec.AuditFiles(e)
	for _, x := range e.AuditSources() {
		all = append(all, ofAudits[x.Path]...)
	}
	err = errors.Join(err, missing)
	for _, sha256 := range []string{e.Training.CodeSHA256, e.Training.ScorerSHA256} {
		if code, given := storage.ParseDigest(sha256); given == nil {
			all = append(all, code)
		}
	}
	for _, source := range e.Sources() {
		files, more := spec.Files(&source.Of.Of(e).Data)
		all, err = slices.Concat(all, files), errors.Join(err, more)
	}
	return all, err
}
