package forecast

import (
	"slices"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/external"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
)

// Load is the cost of one task.
type Load struct {
	// FLOP are floating-point operations, Bytes are bytes through the store, Program is the seconds
	// of an external program.
	FLOP, Bytes, Program float64
	// Unknown is set if a program of unknown speed does the work.
	Unknown bool
}

// Costs of a task in addition to its arithmetic.
const (
	// StoreBytes is the number of bytes per second between a core and the store.
	StoreBytes = 250e6
	// TaskSeconds is the time from a task being ready to its commit if it computes nothing: a round
	// of parts and a join, two tasks in sequence, takes 5 ms (docs/operations.md).
	TaskSeconds = 2.5e-3
)

// Seconds returns the time on a core with a peak in GFLOP/s.
func (l Load) Seconds(peakGFLOPS float64) float64 {
	return l.FLOP/(peakGFLOPS*1e9*Efficiency) + l.Bytes/StoreBytes + l.Program + TaskSeconds
}

// Speed is the speed of a program that trains and scores in place of Coalmine.
type Speed struct {
	Train, Score Pace
	// Begin is the time in seconds that a program for clients takes before it trains the first
	// client.
	Begin float64
	// Network is the program's network, whose updates attacks read; nil if the program trains whole
	// models.
	Network models.Network
}

// Pace is the time of a program for a task: Start seconds, and Token seconds for each token.
type Pace struct{ Start, Token float64 }

func trains(s *Speed) Pace { return s.Train }
func scores(s *Speed) Pace { return s.Score }

// Loads holds the loads of the tasks of a plan. Tasks that prepare data have no load.
type Loads struct {
	nodes map[storage.Key]Load
	steps map[storage.Key]stepLoad // by recipe
}

// stepLoad is the load of each part of a step, and of its join.
type stepLoad struct{ part, join Load }

// Of returns the load of a task.
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

// LoadsOf divides the costs of cells among the tasks of a plan: the cost of a step equally among
// its parts, and an audit's own cost equally among its tasks. speed returns the speed of the
// program of a cell; nil if unknown.
func LoadsOf(s *submission.Submission, p *plan.Plan, speed func(cell int) *Speed) *Loads {
	l := &Loads{map[storage.Key]Load{}, map[storage.Key]stepLoad{}}
	for i := range p.Cells {
		e := &s.Spec.Cells[i].Experiment
		model, err := networkOf(e)
		if err != nil {
			continue // compiling rejects it
		}
		c := newCosting(s, i, model)
		if c.trainedByProgram() {
			c.speed = speed(i)
		}
		l.add(c, p, &p.Cells[i])
	}
	return l
}

// add adds a cell: its trainings, and the trainings that it depends on, which are assumed to cost
// the same.
func (l *Loads) add(c costing, p *plan.Plan, cell *plan.Cell) {
	nodes, chains := below(p, cell.Report, cell.Model)
	trained, _ := below(p, cell.Model)
	for _, ch := range chains {
		if _, counted := l.steps[ch.Recipe]; !counted {
			l.steps[ch.Recipe] = c.step(ch.StepRounds, ch.Width)
		}
	}
	if tail := cell.Tail; tail.Rounds > 0 && tail.Node.Chain == nil {
		l.nodes[tail.Node.Key] = c.step(tail.Rounds, 0).join
	}
	for _, key := range nodes[external.Train.Name] {
		l.nodes[key] = c.programLoad(c.trainTokens, trains)
	}
	for _, key := range nodes[training.ClientInitial.Name] {
		l.nodes[key] = c.programLoad(0, func(s *Speed) Pace { return Pace{Start: s.Begin} })
	}
	for _, key := range nodes[selection.Predictions.Name] {
		l.nodes[key] = Load{FLOP: c.slowness() * c.trainTokens * c.model.ScoringFLOPs()}
	}
	for _, m := range c.experiment.Audit.Asked() {
		var of []storage.Key
		for _, kind := range m.Kinds {
			of = append(of, slices.DeleteFunc(slices.Clone(nodes[kind.Name]), func(key storage.Key) bool {
				return slices.Contains(trained[kind.Name], key) // it only inserts canaries for the training
			})...)
		}
		of = measuring(p, of)
		for _, key := range of {
			l.nodes[key] = c.share(m, len(of))
		}
	}
}

func measuring(p *plan.Plan, nodes []storage.Key) []storage.Key {
	members := map[storage.Key]bool{}
	for _, key := range nodes {
		members[key] = true
	}
	return slices.DeleteFunc(nodes, func(key storage.Key) bool {
		return slices.ContainsFunc(p.Nodes[key].Needs, func(r plan.Ref) bool { return r.Chain == nil && members[r.Key] })
	})
}

// step returns the load of a step.
func (c costing) step(rounds, width int) stepLoad {
	c.Cost = Cost{}
	c.train(1, rounds, width)
	size := 4 * float64(c.model.Parameters())
	work := Load{FLOP: c.slowness() * c.TrainingFLOP}
	if c.trainedByProgram() {
		work = c.programLoad(float64(c.experiment.Training.Cohort)*c.perUser, trains)
	}
	if width == 0 {
		work.Bytes = c.Bytes
		return stepLoad{join: work}
	}
	part := work
	part.FLOP, part.Program, part.Bytes = work.FLOP/float64(width), work.Program/float64(width), 2*size
	return stepLoad{part, Load{Bytes: c.Bytes - float64(width)*part.Bytes}}
}

// below returns the standing nodes that outputs depend on, by kind, and the chains.
func below(p *plan.Plan, outputs ...plan.Ref) (nodes map[string][]storage.Key, chains []*plan.Chain) {
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
	visit(outputs)
	return nodes, chains
}
