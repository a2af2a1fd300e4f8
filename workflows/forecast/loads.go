package forecast

import (
	"encoding/json"
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
	// Training, Sentences, Scoring and Attacks are floating-point operations. Sentences are those of
	// scoring whole sentences, Scoring those of other scoring.
	Training, Sentences, Scoring, Attacks float64
	// Bytes are bytes through the store. Overhead, Preparation and Program are seconds: of native training and scoring
	// in addition to their operations, of a task that prepares data, and of an external program.
	Bytes, Overhead, Preparation, Program float64
	// Unknown reports whether a program of unknown speed does the work.
	Unknown bool
}

// Costs of a task in addition to its arithmetic.
const (
	// StoreBytes is the number of bytes per second between a core and the store.
	StoreBytes = 250e6
	// TaskSeconds is the time from a task being ready to its commit if it computes nothing. A round of
	// parts and a join, two tasks in sequence, takes 5 ms (docs/operations.md).
	TaskSeconds = 2.5e-3
)

// Seconds returns the time on a core whose peak is peakGFLOPS, in GFLOP/s.
func (l Load) Seconds(peakGFLOPS float64) float64 {
	atPeak := (l.Training+l.Sentences)/TrainingEfficiency + l.Scoring/ScoringEfficiency + l.Attacks/AttackEfficiency
	return atPeak/(peakGFLOPS*1e9) + l.Overhead + l.Preparation + l.Bytes/StoreBytes + l.Program + TaskSeconds
}

// Speed is the speed of a program that trains and scores in place of Coalmine.
type Speed struct {
	Train, Score Pace
	// Begin is the time in seconds that a program for clients takes before it trains the first client.
	Begin float64
	// Network is the program's network, whose updates attacks read. It is nil if the program trains whole models.
	Network models.Network
}

// Pace is the time of a program for a task: Start seconds, and Token seconds for each token.
type Pace struct{ Start, Token float64 }

func trains(s *Speed) Pace { return s.Train }
func scores(s *Speed) Pace { return s.Score }

// Loads holds the loads of the tasks of a plan.
type Loads struct {
	nodes map[storage.Key]Load
	steps map[storage.Key]stepLoad // by recipe
	sizes map[storage.Key]size     // of prepared data
}

type stepLoad struct{ part, join Load }

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

// LoadsOf divides the costs of cells among the tasks of a plan: the cost of a step equally among its parts, and an
// audit's own cost equally among its tasks. speed returns the speed of the program of a cell, or nil if unknown.
func LoadsOf(s *submission.Submission, p *plan.Plan, speed func(cell int) *Speed) *Loads {
	l := &Loads{map[storage.Key]Load{}, map[storage.Key]stepLoad{}, map[storage.Key]size{}}
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

// add adds a cell: its trainings, and the trainings on which it depends. Those of reference models and of
// halves of the data are assumed to cost the same.
func (l *Loads) add(c costing, p *plan.Plan, cell *plan.Cell) {
	nodes, chains := below(p, cell.Report, cell.Model)
	trained, _ := below(p, cell.Model)
	l.prepare(preparing{c.read, p, l.sizes}, nodes)
	of := c.trainings(p, nodes)
	for _, ch := range chains {
		if _, counted := l.steps[ch.Recipe]; !counted {
			l.steps[ch.Recipe] = of(ch.Recipe).step(ch.StepRounds, ch.Width)
		}
	}
	for _, key := range tails(nodes) {
		l.nodes[key] = of(key).step(tailSteps(p.Nodes[key]), 0).join
	}
	for _, key := range nodes[external.Train.Name] {
		l.nodes[key] = c.programLoad(c.trainTokens, trains)
	}
	for _, key := range nodes[training.ClientInitial.Name] {
		l.nodes[key] = c.programLoad(0, func(s *Speed) Pace { return Pace{Start: s.Begin} })
	}
	for _, key := range slices.Concat(nodes[selection.Predictions.Name], nodes[training.Losses.Name]) {
		l.nodes[key] = of(key).scoring(c.trainTokens, true)
	}
	for _, m := range c.experiment.Audit.Requested() {
		var measures []storage.Key
		for _, kind := range m.Kinds {
			measures = append(measures, slices.DeleteFunc(slices.Clone(nodes[kind.Name]), func(key storage.Key) bool {
				return slices.Contains(trained[kind.Name], key) // it only inserts canaries for the training
			})...)
		}
		measures = measuring(p, measures)
		for _, key := range measures {
			l.nodes[key] = c.share(m, p.Nodes[measures[0]].Kind, len(measures))
		}
	}
}

// tails returns the tasks that take the last SGD steps of trainings, which are fewer than those of a
// chain's step. A short training, such as one of audit.many_runs, has no other task.
func tails(nodes map[string][]storage.Key) []storage.Key {
	return slices.Concat(nodes[training.SGD.Name], nodes[training.DPSGD.Name])
}

// tailSteps returns the number of SGD steps of a tail.
func tailSteps(n *plan.Node) int {
	var params struct{ Steps int }
	_ = json.Unmarshal(n.Params, &params) // compiling has encoded them
	return params.Steps
}

// measuring returns the nodes of an audit that measure: those that depend on a training, except those that
// summarize others.
func measuring(p *plan.Plan, nodes []storage.Key) []storage.Key {
	nodes = slices.DeleteFunc(nodes, func(key storage.Key) bool {
		under, chains := below(p, p.Nodes[key].Needs...)
		return len(chains)+len(tails(under))+len(under[external.Train.Name]) == 0
	})
	members := map[storage.Key]bool{}
	for _, key := range nodes {
		members[key] = true
	}
	return slices.DeleteFunc(nodes, func(key storage.Key) bool {
		return slices.ContainsFunc(p.Nodes[key].Needs, func(r plan.Ref) bool { return r.Chain == nil && members[r.Key] })
	})
}

func (c *costing) step(rounds, width int) stepLoad {
	operations, bytes := c.train(1, rounds, width)
	checkpoint, sum := c.sizes()
	var work Load
	if c.trainedByProgram() {
		work = c.programLoad(c.perStep(rounds), trains)
	} else {
		work = Load{Training: operations, Overhead: c.overhead(rounds)}
	}
	if width == 0 {
		work.Bytes = bytes
		return stepLoad{join: work}
	}
	part, generator := work, c.generator(rounds)
	part.Training, part.Overhead = (work.Training-generator)/float64(width), work.Overhead/float64(width)
	part.Program, part.Bytes = work.Program/float64(width), checkpoint+sum
	return stepLoad{part, Load{Training: generator, Bytes: bytes - float64(width)*part.Bytes}}
}

// below returns the standing nodes on which outputs depend, by kind, and the chains.
func below(p *plan.Plan, outputs ...plan.Ref) (nodes map[string][]storage.Key, chains []*plan.Chain) {
	nodes = map[string][]storage.Key{}
	list, chains := p.Needed(outputs...)
	for _, n := range list {
		nodes[n.Kind] = append(nodes[n.Kind], n.Key)
	}
	return nodes, chains
}
