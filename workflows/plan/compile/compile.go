// Package compile turns a resolved experiment into a plan: each cell of the grid into the nodes that
// import its data, insert its canaries, train, measure and report. It is pure: the same experiment gives
// the same keys, and a node common to two cells exists once.
//
//	import - encode - balance ------------- partition - training - audits - report
//	            \         \                /
//	             draw ---- insert --------
//
// Audits that insert their own data do so between partition and training.
package compile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/devices"
	"coalmine/tasks/external"
	"coalmine/tasks/reports"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// Registry returns every kind that a plan may contain. Workers must support them.
func Registry() tasks.Registry {
	return tasks.NewRegistry(slices.Concat(
		datasets.Kinds(), filters.Kinds(), canaries.Kinds(), training.Kinds(), aggregation.Kinds(),
		updates.Kinds(), selection.Kinds(), devices.Kinds(), external.Kinds(), all.Kinds(), reports.Kinds(),
	)...)
}

// Plan compiles a resolved experiment with the digests of its sources and counted rounds. It returns the
// error of CheckSize if the experiment is too large.
func Plan(spec *experiment.Spec) (*plan.Plan, error) {
	if err := CheckSize(spec); err != nil {
		return nil, err
	}
	p, same := newPlan(), make(shared)
	for i := range spec.Cells {
		if err := compileCell(spec, i, p, same); err != nil {
			return nil, err
		}
	}
	var err error
	p.Sources, err = Sources(spec)
	return p, err
}

// partNodes is the number of standing nodes at which a part of a plan is full and takes no further cell.
const partNodes = 4096

// Parts compiles an experiment as Plan does, some cells at a time.
func Parts(spec *experiment.Spec) (plan.Parts, error) {
	if err := CheckSize(spec); err != nil {
		return nil, err
	}
	next, same := 0, make(shared)
	return func() (p *plan.Plan, err error) {
		if next == len(spec.Cells) {
			return nil, io.EOF
		}
		p = newPlan()
		if next == 0 {
			if p.Sources, err = Sources(spec); err != nil {
				return nil, err
			}
		}
		for ; next < len(spec.Cells) && len(p.Nodes) < partNodes; next++ {
			if err := compileCell(spec, next, p, same); err != nil {
				return nil, err
			}
		}
		return p, nil
	}, nil
}

// Check returns an error if Plan would. It compiles each cell separately and discards the nodes.
func Check(spec *experiment.Spec) error {
	if err := CheckSize(spec); err != nil {
		return err
	}
	return goroutines.Each(context.Background(), len(spec.Cells), runtime.GOMAXPROCS(0), func(_ context.Context, i int) error {
		return compileCell(spec, i, newPlan(), make(shared))
	})
}

func newPlan() *plan.Plan {
	return &plan.Plan{Nodes: map[storage.Key]*plan.Node{}, Chains: map[storage.Key]*plan.Chain{}}
}

func compileCell(spec *experiment.Spec, i int, p *plan.Plan, same shared) error {
	c := newCell(spec, i, p, same)
	files, err := spec.Files(&c.experiment.Data)
	if err == nil {
		c.second, err = spec.SecondFiles(&c.experiment.Data)
	}
	if err == nil {
		c.ofAudits, err = spec.AuditFiles(c.experiment)
	}
	if err == nil {
		err = c.compile(files)
	}
	if err != nil {
		return fmt.Errorf("cell %s (%s): %w", c.spec.Name, c.spec.Label, err)
	}
	return nil
}

func newCell(spec *experiment.Spec, index int, p *plan.Plan, same shared) *cell {
	return &cell{
		plan: p, same: same, sources: spec, index: index, spec: &spec.Cells[index], experiment: &spec.Cells[index].Experiment,
		setting: spec.Cells[index].Experiment.Setting(), refs: map[storage.Key]plan.Ref{}, planted: map[audits.Planter]storage.Key{},
	}
}

// cell compiles one cell. Its fields after experiment are the nodes so far.
type cell struct {
	plan       *plan.Plan
	same       shared
	sources    *experiment.Spec // holds the files of sources
	index      int
	spec       *experiment.Cell
	experiment *experiment.Experiment
	err        error // the first; later nodes are then meaningless

	// corpus is the imported source.
	corpus plan.Ref
	// placements is the partition, which records the positions of the canaries; population is the training
	// data, including data planted by audits.
	parts, balanced, canaries, insertions, placements, population, shards plan.Ref
	// files are the files of the source; second holds those of further sources, and ofAudits those of the
	// sources of audits, by path.
	files    []storage.Digest
	second   experiment.SecondFiles
	ofAudits map[string][]storage.Digest
	// vocabulary is the node of the source that provides the vocabulary, or zero if that is the cell's own source.
	vocabulary plan.Ref
	// selected is the choice of data.select from the population, or zero.
	selected plan.Ref
	// sanitized is the population after the removal of patterns, or zero.
	sanitized plan.Ref
	// undivided is the population before its users are divided into devices.
	undivided plan.Ref
	// divided is the population of devices, or zero if users are not divided.
	divided plan.Ref
	// disagreed is the population without the sentences on which two models disagree, or zero.
	disagreed plan.Ref

	origin plan.Ref
	// recorded are the nodes that gather the training's recorded updates.
	recorded []plan.Ref
	chain    *plan.Chain
	model    plan.Ref
	rest     plan.Tail     // of the training, after its chain
	best     plan.Ref      // the model of early stopping, or zero
	secret   *tasks.Secret // of central training, if set

	// setting is the experiment as audits see it.
	setting *audits.Setting
	// refs holds the nodes that audits refer to by their keys, planted the nodes of the planters.
	refs    map[storage.Key]plan.Ref
	planted map[audits.Planter]storage.Key
}

// gathered returns the keys of the nodes with the recorded updates.
func (c *cell) gathered() (keys []storage.Key) {
	for _, r := range c.recorded {
		keys = append(keys, r.Key)
	}
	return keys
}

// fail keeps the first error of the cell.
func (c *cell) fail(err error) { c.err = cmp.Or(c.err, err) }

func (c *cell) compile(files []storage.Digest) error {
	c.data(files)
	if c.err == nil {
		c.training()
	}
	if c.err != nil {
		return c.err
	}
	report := c.report()
	var prepared plan.Ref
	if apart, ok := c.classifier(); ok {
		prepared = apart.model
	}
	axes, row := c.place()
	c.plan.Cells = append(c.plan.Cells, plan.Cell{
		Index: c.index, Name: c.spec.Name, Label: c.spec.Label, Axes: axes, Row: row, Report: report,
		Chain: c.chain, Tail: c.rest, Unit: Unit(&c.experiment.Training), Target: c.experiment.Target(), Model: c.model, Final: c.after(c.experiment.Training.Rounds), Initial: c.origin,
		Prepared: prepared, Vocabulary: c.parts, Population: c.population, Shards: c.shards,
		Devices: c.divided, Recorded: c.gathered(),
	})
	return c.err
}

// place returns the cell's axes and row as JSON.
func (c *cell) place() (axes, row json.RawMessage) {
	axes, err := json.Marshal(c.spec.Axes)
	if err == nil && c.spec.Row != nil {
		row, err = json.Marshal(c.spec.Row)
	}
	if err != nil {
		c.fail(fmt.Errorf("axes cannot be recorded: %w", err))
	}
	return axes, row
}

// edge is a named input.
type edge struct {
	name string
	ref  plan.Ref
}

// node adds a standing node, unless the plan has it.
func (c *cell) node(kind tasks.Kind, label string, params any, edges ...edge) plan.Ref {
	inputs, needs := connect(edges)
	spec, err := tasks.NewSpec(kind, params, inputs...)
	c.fail(err)
	if runsCommands(kind, params) {
		spec.Class, spec.Terms = c.commandClass(), c.terms()
	}
	if _, there := c.plan.Nodes[spec.Key]; !there {
		label, spec.Params = c.same.with(label, spec.Params)
		c.plan.Nodes[spec.Key] = &plan.Node{Spec: spec, Label: label, Needs: needs}
	}
	return plan.Ref{Key: spec.Key}
}

// shared holds the last node's label and parameters, by label. Nearly all cells have equal ones, so a plan
// of many cells holds them once.
type shared map[string]sharedTexts

type sharedTexts struct {
	label  string
	params json.RawMessage
}

// with returns the label and parameters as shared copies if they are equal to the last ones.
func (s shared) with(label string, params json.RawMessage) (string, json.RawMessage) {
	last, there := s[label]
	switch {
	case !there:
		last = sharedTexts{label, slices.Clip(params)}
	case !bytes.Equal(last.params, params):
		last.params = slices.Clip(params)
	}
	s[label] = last
	return last.label, last.params
}

func connect(edges []edge) (inputs []tasks.Input, needs []plan.Ref) {
	if len(edges) == 0 {
		return nil, nil
	}
	inputs, needs = make([]tasks.Input, len(edges)), make([]plan.Ref, len(edges))
	for i, e := range edges {
		inputs[i], needs[i] = tasks.Input{Name: e.name, Key: e.ref.Key}, e.ref
	}
	return inputs, needs
}

// template returns the fields common to the tasks of a chain.
func (c *cell) template(kind tasks.Kind, params any, edges ...edge) plan.Template {
	raw, err := json.Marshal(params)
	if err != nil {
		c.fail(fmt.Errorf("parameters of %s cannot be hashed: %w", kind.Name, err))
	}
	inputs, needs := connect(edges)
	t := plan.Template{Kind: kind, Params: raw, Inputs: inputs, Needs: needs}
	if runsCommands(kind, params) {
		t.Class, t.Terms = c.commandClass(), c.terms()
	}
	return t
}
