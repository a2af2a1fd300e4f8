package compile

import (
	"math"
	"reflect"
	"strconv"

	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// maxCanaries is the maximum number of canaries of a cell. It bounds the tasks of a measurement, which
// tasks compiles to count them.
const maxCanaries = 100_000

// CheckSize returns a *SizeError if the plan of an experiment would have more nodes or steps than
// plan.MaxNodes or plan.MaxSteps. It counts them by arithmetic, and compiles only one measurement of each
// sort. A cell with unknown rounds counts as one round.
func CheckSize(spec *experiment.Spec) error {
	s := sizer{spec: spec}
	for i := range spec.Cells {
		if err := s.add(&spec.Cells[i]); err != nil {
			return err
		}
	}
	return s.whole()
}

// SizeError reports an experiment that is too large.
type SizeError struct{ experiment.Problem }

// Error names the fields whose product is too large, and the remedy.
func (e *SizeError) Error() string { return e.Problem.String() }

func tooLarge(c *experiment.Cell, path, format string, args ...any) error {
	return &SizeError{c.Problem(path, format, args...)}
}

// sizer adds up the sizes of cells. Counts are float64, so that products do not overflow.
type sizer struct {
	spec         *experiment.Spec
	nodes, steps float64
	sorts        []sort
}

// recentSorts is the number of sorts with which a cell is compared. It bounds the cost of a grid of many sorts.
const recentSorts = 16

// sort holds the numbers of tasks of cells with equal audits.
type sort struct {
	audit             *experiment.Audit
	canaries          *experiment.Canaries
	fixed, perMeasure float64 // tasks of a cell without audit, tasks of one measurement
}

// add counts a cell. It returns an error if this cell is too large.
func (s *sizer) add(c *experiment.Cell) error {
	e := &c.Experiment
	if n := drawn(e); n > maxCanaries {
		return tooLarge(c, "canaries", "request %.0f canaries (per_configuration x user_probability x example_probability or insertions, and held_back, for each format); expected at most %d: use fewer canaries", n, maxCanaries)
	}
	steps, rounds := chainSteps(e), max(1, e.Training.Rounds)
	if steps > plan.MaxSteps {
		return tooLarge(c, "training.rounds", "gives %.0f steps, which are sequential tasks; expected at most %d in a plan: train for fewer rounds, or with sgd raise steps_per_task", steps, plan.MaxSteps)
	}
	fixed, perMeasure := s.tasks(c)
	measurements := measurements(e)
	nodes := fixed + measurements*perMeasure + gathers(e)
	if nodes > plan.MaxNodes {
		return tooLarge(c, "audit.every", "gives %.0f measurements (training.rounds %d, audit.every %s) of %.0f tasks each, %.0f tasks in total; expected at most %d in a plan: measure less often, or use fewer canaries",
			measurements, rounds, e.Audit.Every, perMeasure, nodes, plan.MaxNodes)
	}
	s.nodes += nodes
	s.steps += steps
	return nil
}

// whole returns an error if the sum of the cells is too large.
func (s *sizer) whole() error {
	first, cells := &s.spec.Cells[0], len(s.spec.Cells)
	if s.nodes > plan.MaxNodes {
		return tooLarge(first, "grid", "has %d cells of %.0f tasks on average, %.0f tasks in total; expected at most %d in a plan: use fewer values, measure less often (audit.every), or use fewer canaries",
			cells, s.nodes/float64(cells), s.nodes, plan.MaxNodes)
	}
	if s.steps > plan.MaxSteps && s.distinctSteps() > plan.MaxSteps {
		return tooLarge(first, "grid", "has %d cells with %.0f steps of training in total (training.rounds); expected at most %d in a plan: use fewer values, or train for fewer rounds", cells, s.steps, plan.MaxSteps)
	}
	return nil
}

// drawn returns the number of canaries of a cell.
func drawn(e *experiment.Experiment) float64 {
	c := e.Canaries
	if c == nil {
		return 0
	}
	configurations := float64(len(c.UserProbability))*float64(len(c.ExampleProbability)) + float64(len(c.Insertions))
	return float64(len(c.AllFormats())) * (float64(c.PerConfiguration)*configurations + float64(c.HeldBack))
}

// references returns the number of trainings that an audit adds to a cell.
func references(e *experiment.Experiment) (n float64) {
	if e.Audit == nil {
		return 0
	}
	for _, m := range e.Audit.Requested() {
		if m.References != nil {
			n += float64(m.References(m.Fields))
		}
	}
	return n
}

// chainSteps returns the total length of a cell's chains in steps: its training, disagreement filter,
// preparation and reference models.
func chainSteps(e *experiment.Experiment) float64 {
	perTask := float64(max(1, e.Training.StepsPerTask))
	steps := math.Floor(float64(e.Training.Rounds) / perTask)
	if d := e.Data.Disagreement; d != nil {
		steps += 2 * math.Floor(float64(d.StepsOf(e.Training.Rounds))/perTask)
	}
	steps += references(e) * math.Floor(float64(e.Training.Rounds)/perTask)
	if p := e.Prepare; p != nil && p.Classifier != nil {
		steps += chainSteps(p.Classifier.ExperimentFor(e))
	}
	return steps
}

// gathers returns the number of nodes that gather a cell's recorded updates.
func gathers(e *experiment.Experiment) float64 {
	recording, layout, err := e.Recording()
	if err != nil || recording == nil {
		return 0 // the plan reports an error
	}
	return math.Ceil(float64(len(recording.RoundsOf(e.Training.Rounds))) / float64(roundsGathered(&e.Training, &layout)))
}

// measurements returns an upper bound, close to the number of measurements of a cell.
func measurements(e *experiment.Experiment) float64 {
	if e.Audit == nil {
		return 0
	}
	once := 1 + float64(len(e.Audit.At))
	every := e.Audit.Every.Of(e.Training.Rounds)
	if every < 1 {
		return once
	}
	apart := max(every, e.Training.StepsPerTask)
	return once + math.Floor(float64(max(0, e.Training.Rounds-1))/float64(apart))
}

// tasks returns the number of tasks of a cell without measurements, and of one measurement. Tasks common to
// all measurements, such as the reference frequencies of utility, count once.
func (s *sizer) tasks(c *experiment.Cell) (fixed, perMeasure float64) {
	short := *c
	e := &short.Experiment
	task := max(1, e.Training.StepsPerTask)
	e.Training.Rounds, e.Audit = task+1, measuredAt(e.Audit)
	for _, known := range s.sorts[max(0, len(s.sorts)-recentSorts):] {
		if reflect.DeepEqual(known.audit, e.Audit) && reflect.DeepEqual(known.canaries, e.Canaries) {
			return known.fixed, known.perMeasure
		}
	}
	s.sorts = append(s.sorts, sort{audit: e.Audit, canaries: e.Canaries})
	once := nodes(short)
	if e.Training.Algorithm != experiment.External { // external training has only one model
		e.Audit = measuredAt(e.Audit, roundsOf(task))
		perMeasure = max(0, nodes(short)-once)
	}
	fixed = once - perMeasure
	perMeasure++ // the report lists every measured round
	found := &s.sorts[len(s.sorts)-1]
	found.fixed, found.perMeasure = fixed, perMeasure
	return fixed, perMeasure
}

// roundsOf returns a share of n rounds.
func roundsOf(n int) numbers.Share {
	rounds, _ := numbers.ParseShare(strconv.Itoa(n)) // every number is a share
	return rounds
}

// measuredAt returns an audit of the last model and of the models after some rounds.
func measuredAt(a *experiment.Audit, rounds ...numbers.Share) *experiment.Audit {
	if a == nil {
		return nil
	}
	last := *a
	last.Every, last.At = numbers.Share{}, rounds
	return &last
}

// nodes returns the number of nodes in the plan of a single cell. If the cell does not compile, it counts
// the nodes before the error, which the plan reports.
func nodes(c experiment.Cell) float64 {
	spec := &experiment.Spec{Cells: []experiment.Cell{c}}
	p := newPlan()
	_ = newCell(spec, 0, p, make(shared)).compile([]storage.Digest{{}})
	return float64(len(p.Nodes))
}

// distinctSteps returns the number of steps. Cells that differ only in the length of their trainings share
// a chain and count once.
func (s *sizer) distinctSteps() float64 {
	longest := map[storage.Digest]float64{}
	for i := range s.spec.Cells {
		e := s.spec.Cells[i].Experiment
		steps := chainSteps(&e)
		e.Audit = measuredAt(e.Audit)
		e.Training.Rounds, e.Training.Epochs, e.Training.Checkpoints = 0, 0, experiment.Checkpoints{}
		digest := e.Digest()
		longest[digest] = max(longest[digest], steps)
	}
	total := 0.0
	for _, steps := range longest {
		total += steps
	}
	return total
}
