package estimate

import (
	"slices"

	"coalmine/models/architectures"
	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
	"coalmine/workflows/submission"
)

// Load is what one task costs.
type Load struct {
	// FLOP are floating-point operations, Bytes what goes through the store.
	FLOP, Bytes float64
}

// What a task takes beside its arithmetic.
const (
	// StoreBytes a second pass between a core and the store.
	StoreBytes = 250e6
	// TaskSeconds pass between a task that is ready and its commit where it does nothing: a
	// round of parts and a join, which are two after each other, takes 5 ms (docs/operations.md).
	TaskSeconds = 2.5e-3
)

// Seconds on a core of a peak in GFLOP/s.
func (l Load) Seconds(peakGFLOPS float64) float64 {
	return l.FLOP/(peakGFLOPS*1e9*Efficiency) + l.Bytes/StoreBytes + TaskSeconds
}

// Loads are those of the tasks of a plan. What only prepares data has none.
type Loads struct {
	nodes map[storage.Key]Load
	steps map[storage.Key]stepLoad // by recipe
}

// stepLoad is that of each part of a step, and of its join.
type stepLoad struct{ part, join Load }

// Of is the load of a task.
func (l *Loads) Of(x *graph.Task) Load {
	ch := x.Chain()
	switch {
	case ch == nil:
		return l.nodes[x.Key]
	case x == x.Step.Join:
		return l.steps[ch.Recipe].join
	}
	return l.steps[ch.Recipe].part
}

// LoadsOf divides what Of adds up among the tasks of a plan: that of a step equally among its
// parts, and what an audit says of itself equally among its tasks.
func LoadsOf(s *submission.Submission, p *plan.Plan) *Loads {
	l := &Loads{map[storage.Key]Load{}, map[storage.Key]stepLoad{}}
	for i := range p.Cells {
		e := &s.Spec.Cells[i].Experiment
		model, err := architectures.New(e.Model.Config(&e.Data))
		if err != nil {
			continue // compiling has refused it
		}
		l.add(newCosting(s, i, model), p, &p.Cells[i])
	}
	return l
}

// add takes in a cell: its trainings, and those that it rests on as if they were like its own.
func (l *Loads) add(c costing, p *plan.Plan, cell *plan.Cell) {
	nodes, chains := below(p, cell)
	for _, ch := range chains {
		if _, counted := l.steps[ch.Recipe]; !counted {
			l.steps[ch.Recipe] = c.step(ch.StepRounds, ch.Width)
		}
	}
	if tail := cell.Tail; tail.Rounds > 0 && tail.Node.Chain == nil {
		l.nodes[tail.Node.Key] = c.step(tail.Rounds, 0).join
	}
	for _, m := range c.experiment.Audit.Asked() {
		var of []storage.Key
		for _, kind := range m.Kinds {
			of = append(of, nodes[kind.Name]...)
		}
		for _, key := range of {
			l.nodes[key] = Load{FLOP: c.audit(m) / float64(len(of))}
		}
	}
}

// step is the load of a step.
func (c costing) step(rounds, width int) stepLoad {
	c.Cost = Cost{}
	c.train(1, rounds, width)
	size := 4 * float64(c.model.Parameters())
	if width == 0 {
		return stepLoad{join: Load{FLOP: c.TrainingFLOP, Bytes: c.Bytes}}
	}
	part := Load{FLOP: c.TrainingFLOP / float64(width), Bytes: 2 * size}
	return stepLoad{part, Load{Bytes: c.Bytes - float64(width)*part.Bytes}}
}

// below are the standing nodes that a cell rests on, by kind, and the chains.
func below(p *plan.Plan, cell *plan.Cell) (nodes map[string][]storage.Key, chains []*plan.Chain) {
	nodes = map[string][]storage.Key{}
	seen := map[storage.Key]bool{}
	var visit func([]plan.Ref)
	visit = func(refs []plan.Ref) {
		for _, r := range refs {
			key := r.Key
			if r.Chain != nil {
				key = r.Chain.Recipe
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			if ch := r.Chain; ch != nil {
				chains = append(chains, ch)
				visit(slices.Concat([]plan.Ref{ch.Origin}, ch.Part.Needs, ch.Join.Needs))
			} else if n := p.Nodes[key]; n != nil {
				nodes[n.Kind] = append(nodes[n.Kind], key)
				visit(n.Needs)
			}
		}
	}
	visit([]plan.Ref{cell.Report, cell.Model})
	return nodes, chains
}
