package audits

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
)

// Statement is a statement of an audit about the presence of training data in a model, with a model of the
// corresponding leak (docs/method/power.md).
type Statement struct {
	// Name distinguishes statements of one audit. It is empty for a single statement.
	Name string
	// Finds describes the result that counts as a find, unless a limit defines another.
	Finds string
	// Limit is the field of audit.fail_if that limits the same number. It may be empty.
	Limit string
	Leak  Leak
	// Chance is the maximum probability of a find by chance; 0 stands for Significance.
	Chance float64
	// Sizes are the numbers that power depends on, at least one.
	Sizes []Size
	// Largest returns the largest number that the limit may judge, however large the leak; nil if it is unknown.
	Largest func() float64
	// None is the reason why there is no find, however large the leak; empty if there may be one.
	None string
	// Power returns the probability of a find.
	Power func(Question) float64
	// Of has the facts besides the numbers that power depends on: statements of one audit with equal facts have
	// equal power. nil stands for the audit's fields and the whole setting.
	Of any
	// Nothing reports whether an outcome has found nothing.
	Nothing func(Outcome) bool
}

// Leak is the parameter of a leak's model.
type Leak struct {
	Name string
	// Means is a clause that ends before the number: "the training costs epsilon".
	Means string
	// Default is between Min and Max.
	Default, Min, Max float64
}

// Size is a number of units that an audit examines.
type Size struct {
	// Unit is the singular noun: "canary".
	Unit string
	N    int
	// Path is the field that sets the size, Value the field's value, in proportion to N. With an empty Path
	// the data set the size.
	Path  string
	Value int
}

// FieldSize returns the size that a field sets.
func FieldSize(path, unit string, n int) Size { return Size{Unit: unit, N: n, Path: path, Value: n} }

// Size returns the size for n inserted canaries.
func (c *Canaries) Size(n int) Size {
	return Size{Unit: "canary", N: n, Path: "canaries.per_configuration", Value: c.PerConfiguration}
}

func (s *Statement) Numbers() []int {
	return lists.Map(s.Sizes, func(size Size) int { return size.N })
}

// Powered is Description.Power of an audit with Fields F and an Outcome O, nil if there is no outcome.
func Powered[F Fields, O any](power func(f F, s *Setting, v *O) []Statement) func(*Setting, Outcome) []Statement {
	return func(s *Setting, v Outcome) []Statement {
		f, asked := FieldsOf[F](s)
		if !asked {
			return nil
		}
		o, _ := v.(*O)
		return power(f, s, o)
	}
}

// Question asks for the probability of a find.
type Question struct {
	// Sizes are numbers in the order of the statement's sizes.
	Sizes []int
	Leak  float64
	// Limit makes a number above it the find; nil selects the statement's own find.
	Limit *float64
	// Enough, if set, allows any answer for which Enough returns the same as for the power. It does not turn
	// from true to false as the power grows.
	Enough func(power float64) bool
}

// LimitOr returns the limit of the question, or limit if nil.
func (q *Question) LimitOr(limit float64) float64 {
	if q.Limit != nil {
		return *q.Limit
	}
	return limit
}

// Significance is the maximum probability by chance of a find without a limit.
const Significance = 1 - Confidence

// Trials is the number of simulated audits for most powers. Their standard error is at most 2.5%.
const Trials = 400

// Simulated returns a function that simulates audits and returns the share of them that find a leak. draw
// returns a function that draws the evidence of one audit; found judges it by the limit of the question, by
// default limit.
func Simulated[E any](trials int, limit float64, draw func(sizes []int, leak float64) func(*rand.Rand) E, found func(sizes []int, limit float64) func(E) bool) func(Question) float64 {
	return NewSimulation(trials, draw).Power(limit, found)
}

// Simulation draws the evidence of simulated audits once for all statements about it.
type Simulation[E any] struct {
	trials int
	draw   func(sizes []int, leak float64) func(*rand.Rand) E
	drawn  map[string]*evidence[E] // by sizes and leak
}

// evidence is the evidence of the first simulated audits.
type evidence[E any] struct {
	one  func(*rand.Rand) E
	list []E
}

// NewSimulation returns a simulation that has drawn nothing.
func NewSimulation[E any](trials int, draw func(sizes []int, leak float64) func(*rand.Rand) E) *Simulation[E] {
	return &Simulation[E]{trials, draw, map[string]*evidence[E]{}}
}

// Power returns the function that Simulated documents. For a question with Enough it simulates only until the
// answer is certain.
func (s *Simulation[E]) Power(limit float64, found func(sizes []int, limit float64) func(E) bool) func(Question) float64 {
	return func(q Question) float64 {
		key := fmt.Sprint(q.Sizes, q.Leak)
		e := s.drawn[key]
		if e == nil {
			e = &evidence[E]{one: s.draw(slices.Clone(q.Sizes), q.Leak)}
			s.drawn[key] = e
		}
		finds, hits := found(q.Sizes, q.LimitOr(limit)), 0
		share := func(hits int) float64 { return float64(hits) / float64(s.trials) }
		for i := range s.trials {
			if q.Enough != nil && q.Enough(share(hits)) == q.Enough(share(hits+s.trials-i)) {
				break
			}
			if i == len(e.list) {
				e.list = append(e.list, e.one(rand.New(rand.NewPCG(simulation, uint64(i)))))
			}
			if finds(e.list[i]) {
				hits++
			}
		}
		return share(hits)
	}
}

// simulation is the seed of all simulated audits.
const simulation = 36
