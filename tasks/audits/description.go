package audits

import (
	"cmp"

	"coalmine/tasks"
	"coalmine/tasks/datasets/text"
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
func (c Content) Fits(level text.Level) bool {
	return c == Anything || (c == Images) == level.Scheme().Images
}

func (c Content) String() string { return cmp.Or(string(c), "texts") }

// Description describes one audit.
type Description struct {
	// Name is the key in results, and usually the field in the audit block.
	Name string

	// New returns empty fields of the audit block. It is nil if Derive finds the outcome.
	New func() Fields
	// Limits are the fields of audit.fail_if, in their order there.
	Limits []Limit
	Kinds  []tasks.Kind
	// Models is the kind of data that the measured models read.
	Models Content

	// Classifier reports whether the audit uses the prepared classifier, if there is one.
	Classifier bool
	// OfPrivacy reports whether the audit bounds or estimates the epsilon of a training from below.
	OfPrivacy bool
	// ByScores reports whether probabilities of texts suffice, so that the audit also measures external models.
	ByScores bool
	// ByProgram reports whether the audit measures models whose clients a program trains.
	ByProgram bool
	// ByTrainer reports whether a program that trains a whole model can report the measurement.
	ByTrainer bool
	// AtEnd reports whether the audit measures only the last model. Otherwise it measures every audited one,
	// and the metrics of its last node, a JSON object of numbers, are in the curve.
	AtEnd bool
	// Pairs selects the models of pairs that the audit measures. The zero value selects no models.
	Pairs Pairs
	// OutcomeBlob is the blob of the last node with the outcome, as JSON. If empty, the node's metrics are
	// the outcome.
	OutcomeBlob string
	// EveryRound adds the outcome of every measured round to the curve, by the audit's name.
	EveryRound bool
	// CanaryOutcomesBlob is the blob of the last node with a JSON array of an object for each canary of the
	// canaries block; results show its members with the canary. Empty if canaries have no outcomes.
	CanaryOutcomesBlob string

	Outcome func() Outcome
	// Derive finds the outcome, if there is one, in other fields of the cell, for descriptions without New.
	Derive func(*Cell) Outcome
	// InJSON adds a derived outcome to the JSON of results.
	InJSON bool
	// CanaryOutcome returns an empty outcome of a canary. It is nil if canaries have no outcomes.
	CanaryOutcome func() CanaryOutcome

	// References returns the number of further models, by Builder.Reference. nil means 0.
	References func(Fields) int
	// Power returns the statements of the audit whose power is computed. If there is an outcome, its numbers
	// replace the planned ones. Power may be nil.
	Power func(s *Setting, v Outcome) []Statement
	// Powerless names the numbers that an attack without Power reports: "shares of words, without an interval
	// or a test".
	Powerless string
	// Replay returns a request to replay steps, for a command that trains the whole model. It may be nil.
	Replay func(Fields) *external.Replay
	// Sources returns the sources that the fields name. It may be nil.
	Sources func(Fields) []Source

	// Measures are measures of outcomes, in the order of the columns of CSV and Parquet; append new ones.
	// Canary has the measures of a canary.
	Measures []Measure
	Canary   []Measure

	// Marked reports whether the leading texts of an outcome mislead without its note. It and the fields
	// below may be nil.
	Marked func(Outcome) bool
	// Among returns the number of sequences that a canary was ranked among, or false without a rank by this
	// audit. At most one description has it.
	Among func(Outcome, CanaryOutcome) (n int, ranked bool)
	// Own returns the outcomes of the audit's own canaries.
	Own func(Outcome) []OwnCanary
	// AttackRows returns a row for each attack that ranks items.
	AttackRows func(Outcome) []Attack
	// MemberRows returns a row for each membership attack.
	MemberRows func(Outcome) []MemberAttack
	// UserRows returns the success of each attack for each user.
	UserRows func(Outcome) []AttackedUser
	// Panels returns figures of one name. With EveryRound they include those of earlier rounds.
	Panels   func(Outcome) []*Figure
	HeatMaps func(Outcome) []*HeatMap
	Pictures func(Outcome) []Picture
	// Changes compares two outcomes in more detail than by their texts.
	Changes func(before, after Outcome) []Change
	// Utility returns the utility of the outcome's model, above 0 and larger for better models: the axis that
	// measures are drawn against. One audit has it.
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
