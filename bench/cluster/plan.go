package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// nothing is the kind of all tasks: it writes a digest and reads nothing.
var nothing = tasks.Kind{
	Name: "bench/nothing", Version: 1, Class: tasks.Compute,
	Run: func(ctx context.Context, t *tasks.Task) error {
		return t.Put(ctx, tasks.ModelBlob, []byte(t.Key.String()))
	},
}

// Registry holds the kinds of the benchmark.
func Registry() tasks.Registry { return tasks.NewRegistry(nothing) }

// shape describes an experiment for the benchmark: trainings in rounds, each of
// several parts and a join, and audits of their checkpoints.
type shape struct {
	Name                 string
	Cells, Parts, Rounds int
	// Audits is the number of checkpoints of each training that are kept and audited.
	Audits int
}

// tasks returns the number of tasks of a run.
func (s shape) tasks() int { return s.Cells * (s.Rounds*(s.Parts+1) + s.Audits + 2) }

func (s shape) spec() (runs.Spec, error) {
	raw, err := json.Marshal(s)
	return runs.Spec{Name: s.Name, Digest: storage.DigestOf(raw), Experiment: raw}, err
}

func compileShape(_ context.Context, run *runs.Run) (plan.Parts, error) {
	var s shape
	if err := json.Unmarshal(run.Spec.Experiment, &s); err != nil {
		return nil, tasks.Permanent(err)
	}
	p, err := s.plan()
	return plan.Whole(p), err
}

func (s shape) plan() (*plan.Plan, error) {
	b := builder{&plan.Plan{Nodes: make(map[storage.Key]*plan.Node), Chains: make(map[storage.Key]*plan.Chain)}}
	for i := range s.Cells {
		if err := b.cell(i, s); err != nil {
			return nil, err
		}
	}
	return b.Plan, nil
}

type builder struct{ *plan.Plan }

// cell adds a training with its initial model, its audits and its report.
func (b builder) cell(i int, s shape) error {
	name := fmt.Sprintf("c%02d", i+1)
	origin, err := b.node("initial model of " + name)
	if err != nil {
		return err
	}
	c := s.chain(name, origin)
	b.Chains[c.Recipe] = c
	needs := []plan.Ref{c.At(s.Rounds)}
	for _, step := range c.Keep[:s.Audits] {
		audit, err := b.node(fmt.Sprintf("audit of %s at %d", name, step), c.At(step))
		if err != nil {
			return err
		}
		needs = append(needs, audit)
	}
	report, err := b.node("report of "+name, needs...)
	b.Cells = append(b.Cells, plan.Cell{Index: i, Name: name, Label: name, Report: report, Model: c.At(s.Rounds), Chain: c, Unit: plan.Round})
	return err
}

func (s shape) chain(name string, origin plan.Ref) *plan.Chain {
	template := plan.Template{Kind: nothing, Params: json.RawMessage(fmt.Sprintf(`{"run":%q,"cell":%q}`, s.Name, name))}
	c := &plan.Chain{Origin: origin, Steps: s.Rounds, StepRounds: 1, Width: s.Parts, Part: template, Join: template}
	for i := range s.Audits {
		c.Keep = append(c.Keep, (i+1)*s.Rounds/s.Audits)
	}
	if s.Audits == 0 {
		c.Keep = []int{s.Rounds}
	}
	c.Recipe = plan.Recipe(origin.Key, c.Width, c.StepRounds, c.Part, c.Join)
	return c
}

func (b builder) node(label string, needs ...plan.Ref) (plan.Ref, error) {
	var inputs []tasks.Input
	for i, need := range needs {
		inputs = append(inputs, tasks.Input{Name: fmt.Sprintf("input-%d", i), Key: need.Key})
	}
	spec, err := tasks.NewSpec(nothing, label, inputs...)
	b.Nodes[spec.Key] = &plan.Node{Spec: spec, Label: label, Needs: needs}
	return plan.Ref{Key: spec.Key}, err
}
