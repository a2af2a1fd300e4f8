package planned

import (
	"context"
	"io"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
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

// experimentAndPlan reads the experiment of a recorded run, and compiles it.
func experimentAndPlan(run *runs.Run) (*experiment.Spec, *plan.Plan, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, nil, err
	}
	p, err := compile.Plan(spec)
	return spec, p, err
}

// Compile makes the plan of a recorded run. The error of a record that does not
// compile is marked tasks.Permanent.
func Compile(_ context.Context, run *runs.Run) (*plan.Plan, error) {
	_, p, err := experimentAndPlan(run)
	return p, tasks.Permanent(err)
}

// CompileParts makes the plan of a recorded run as Compile does, some cells at a time.
func CompileParts(_ context.Context, run *runs.Run) (plan.Parts, error) {
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
func Sources(run *runs.Run) ([]storage.Digest, error) {
	spec, err := Experiment(run)
	if err != nil {
		return nil, err
	}
	return compile.Sources(spec)
}
