package audits

import (
	"cmp"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// Content is the data that a model reads.
type Content string

// Contents.
const (
	Texts    Content = "" // the zero value: most audits are of language models
	Images   Content = "images"
	Anything Content = "anything"
)

// Fits reports whether models of data at the level are measured.
func (c Content) Fits(level datasets.Level) bool {
	return c == Anything || (c == Images) == level.Scheme().Images
}

func (c Content) String() string { return cmp.Or(string(c), "texts") }

// Description is one audit.
type Description struct {
	// Name is the key in results, and mostly the field in the audit block.
	Name string
	// Legend explains its columns of tables, in a sentence or two.
	Legend string

	// New returns empty fields of the audit block; nil if Derive finds the outcome.
	New func() Fields
	// Limits of audit.fail_if, in their order there.
	Limits []Limit
	Kinds  []tasks.Kind
	// Models says which data the measured models read.
	Models Content

	// Classifier: it uses the prepared classifier, if there is one.
	Classifier bool
	// OfPrivacy: it bounds or estimates the epsilon of a training from below.
	OfPrivacy bool
	// ByScores: probabilities of texts suffice, so that it measures external models, too.
	ByScores bool
	// ByProgram: it measures models whose clients a program trains.
	ByProgram bool
	// ByTrainer: a program that trains a whole model can report its measurement.
	ByTrainer bool
	// AtEnd audits measure the last model alone. Others measure every audited one, and the metrics of their
	// last node, a JSON object of numbers, are in the curve.
	AtEnd bool
	// Pairs says which models of pairs it measures; the zero value: none.
	Pairs Pairs
	// OutcomeBlob of the last node is the outcome, as JSON; empty: its metrics are.
	OutcomeBlob string
	// EveryRound: the curve has the outcome of every measured round, by the audit's name.
	EveryRound bool
	// CanaryOutcomesBlob of the last node is a JSON array of an object for each canary of the canaries
	// block, whose members results show with the canary. Empty: none.
	CanaryOutcomesBlob string

	Outcome func() Outcome
	// Derive finds the outcome in the rest of a cell, if there is one, for descriptions without New.
	Derive func(*Cell) Outcome
	// InJSON puts a derived outcome into the JSON of results.
	InJSON bool
	// CanaryOutcome returns an empty outcome of a canary; nil if there are none.
	CanaryOutcome func() CanaryOutcome

	// References returns the number of further models, by Builder.Reference; nil: none.
	References func(Fields) int
	// Power has the statements of the audit whose power is computed, with the numbers of an outcome in place
	// of the planned ones, if there is one; nil: none.
	Power func(s *Setting, v Outcome) []Statement
	// Powerless names the numbers that an attack without Power reports: "shares of words, without an interval or a test".
	Powerless string
	// Replay asks a command that trains the whole model to replay steps; nil: not asked.
	Replay func(Fields) *external.Replay
	// Sources returns the sources that the fields name; nil: none.
	Sources func(Fields) []Source

	// Measures of outcomes, in the order of the columns of CSV and Parquet; new ones stand last. Canary has
	// those of a canary.
	Measures []Measure
	Canary   []Measure

	// The fields below may be nil. Marked reports whether the leading texts of an outcome mislead without
	// its note.
	Marked func(Outcome) bool
	// Own lists the outcomes of canaries of the audit's own.
	Own func(Outcome) []Own
	// AttackRows has a row for each attack that ranks something.
	AttackRows func(Outcome) []Attack
	// MemberRows has a row for each attack on membership.
	MemberRows func(Outcome) []MemberAttack
	// UserRows says how well each attack finds each user.
	UserRows func(Outcome) []AttackedUser
	// Panels are figures of one name, with EveryRound those of earlier rounds, too.
	Panels   func(Outcome) []*Figure
	HeatMaps func(Outcome) []*HeatMap
	Pictures func(Outcome) []Picture
	// Changes compares two outcomes further than by their texts.
	Changes func(before, after Outcome) []Change
	// Utility of the outcome's model, above 0 and larger for better models: the axis that measures are drawn
	// against; false: none. One audit has it.
	Utility func(Outcome) (float64, bool)
}

// Describe completes the description of an audit with Fields F and an Outcome O.
func Describe[F, O any, P interface {
	*F
	Fields
}](d Description) Description {
	d.New, d.Outcome = func() Fields { return P(new(F)) }, func() Outcome { return new(O) }
	return d
}

// From adapts a function of an audit's own Outcome to a field of its Description.
func From[O, R any](f func(*O) R) func(Outcome) R {
	return func(o Outcome) R { return f(o.(*O)) }
}
