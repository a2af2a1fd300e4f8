package audits

import (
	"cmp"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Content is the kind of data that the models of an audit read.
type Content string

// Contents.
const (
	Texts    Content = "" // the zero value: most audits are of language models
	Images   Content = "images"
	Anything Content = "anything"
)

// Fits reports whether models are measured that read data at the level.
func (c Content) Fits(level datasets.Level) bool {
	return c == Anything || (c == Images) == level.Scheme().Images
}

// String returns the word for messages.
func (c Content) String() string { return cmp.Or(string(c), "texts") }

// Description is one audit.
type Description struct {
	// Name is the key of its outcome in results, and mostly its field in the audit block.
	Name string
	// Legend explains its columns of tables, in a sentence or two.
	Legend string

	// New returns its empty fields of the audit block; nil if the outcome follows from others, by
	// Derive.
	New func() Fields
	// Limits are its limits of audit.fail_if, in the order of the fields there.
	Limits []Limit
	// Kinds are the kinds of its tasks.
	Kinds []tasks.Kind
	// Models is the data that the measured models read.
	Models Content

	// Classifier says that it uses the prepared classifier, if the experiment has one.
	Classifier bool
	// OfPrivacy says that it bounds or estimates the epsilon of a training from below.
	OfPrivacy bool
	// ByScores says that it needs only the probabilities of texts, and so measures external
	// models, too.
	ByScores bool
	// ByProgram says that it measures models whose clients a program trains.
	ByProgram bool
	// ByTrainer says that a program that trains a whole model can report its measurement.
	ByTrainer bool
	// AtEnd audits measure the last model alone. Others measure every audited one, and
	// the metrics of their last node, a JSON object of numbers, stand in the curve.
	AtEnd bool
	// Pairs says which models of pairs it measures. The zero value: none.
	Pairs Pairs
	// OutcomeBlob names the blob of its last node that is the outcome, as JSON. If it is
	// empty, the metrics of the node are the outcome.
	OutcomeBlob string
	// EveryRound says that the outcome after every measured round stands in the curve, too, by
	// the name of the audit.
	EveryRound bool
	// CanaryOutcomesBlob names the blob of its last node that is a JSON array with an object
	// for each canary of the canaries block. Its members stand with the canary in
	// results. Empty: the audit has no outcomes of canaries.
	CanaryOutcomesBlob string

	// Outcome returns an empty outcome, to be decoded into.
	Outcome func() Outcome
	// Derive finds the outcome in the rest of a cell; nil if there is none. It is for
	// descriptions without New.
	Derive func(*Cell) Outcome
	// InJSON puts a derived outcome into the JSON of results, by the name of the audit.
	InJSON bool
	// CanaryOutcome returns an empty outcome of a canary, to be decoded into; nil if the audit
	// has none.
	CanaryOutcome func() CanaryOutcome

	// References returns the number of further models that the audit trains by Builder.Reference;
	// nil: none.
	References func(Fields) int
	// Sources returns the sources of its own that the fields name, if any; nil: it has none.
	Sources func(Fields) []Source

	// Measures are those of an outcome, in the order of its columns of CSV and Parquet, where
	// new ones stand at the end.
	Measures []Measure
	// Canary are the measures of an outcome, in the order of the columns of canaries.
	Canary []Measure

	// Charted is drawn over all cells; nil: nothing is.
	Charted *Charted
	// The fields below, to Utility, are nil if outcomes have nothing of the kind. Marked reports
	// whether the leading texts of an outcome mislead without its note.
	Marked func(Outcome) bool
	// Own lists the outcomes of canaries of the audit's own.
	Own func(Outcome) []Own
	// UserRows says how well each user is found: the users of the first attack, then of the next.
	UserRows func(Outcome) []AttackedUser
	// Panels are several figures of one name. They know the outcome alone, since they are drawn
	// of models of earlier rounds too, if EveryRound is set.
	Panels func(Outcome) []*Figure
	// HeatMaps are tables of numbers to be looked at.
	HeatMaps func(Outcome) []*HeatMap
	// Pictures are pictures to look at.
	Pictures func(Outcome) []Picture
	// Changes compares the outcomes of two models by more than their texts side by side.
	Changes func(before, after Outcome) []Change
	// Utility is the utility of the outcome's model, above 0, and larger for better models: the
	// axis that Charted is drawn against. false: the outcome has none. It is nil for all audits
	// but one.
	Utility func(Outcome) (float64, bool)
}

// From adapts a function of an audit's own type of outcome to a field of its Description.
func From[O, R any](f func(*O) R) func(Outcome) R {
	return func(o Outcome) R { return f(o.(*O)) }
}
