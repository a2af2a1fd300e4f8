package audits

import (
	"cmp"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Content is what the models read that an audit measures.
type Content string

// What models read.
const (
	Texts    Content = "" // the zero value: most audits are of language models
	Images   Content = "images"
	Anything Content = "anything"
)

// Fits reports whether models are measured that read data at the level.
func (c Content) Fits(level datasets.Level) bool {
	return c == Anything || (c == Images) == level.Scheme().Images
}

// String is a word for messages.
func (c Content) String() string { return cmp.Or(string(c), "texts") }

// Description is one audit.
type Description struct {
	// Name is the key of its outcome in results, as a rule also its field in the audit
	// block.
	Name string
	// Legend explains its columns, in a sentence or two for whoever reads the table.
	Legend string

	// New returns the fields that it adds to the audit block, asking for nothing. It is
	// nil for what is not asked for, but follows from other things: see Derive.
	New func() Fields
	// Limits are those that it adds to audit.fail_if, in the order of its fields there.
	Limits []Limit
	// Kinds are the sorts of task that it brings.
	Kinds []tasks.Kind
	// Models is what the models read that it measures.
	Models Content

	// Classifier says that it has the prepared classifier look at something, where there is
	// one.
	Classifier bool
	// OfPrivacy says that it bounds or estimates the epsilon of a training from below.
	OfPrivacy bool
	// ByScores says that it needs no more of a model than how probable texts are, so that it
	// measures models that are not ours.
	ByScores bool
	// ByProgram says that it measures models whose clients a program of somebody else trains.
	ByProgram bool
	// ByTrainer says that a command which trains a whole model can be asked for what it measures.
	ByTrainer bool
	// AtEnd audits measure the last model alone. Others measure every audited one, and
	// the metrics of their last node, a JSON object of numbers, stand in the curve.
	AtEnd bool
	// Pairs says which models of pairs it measures. The zero value: none.
	Pairs Pairs
	// OutcomeBlob names the blob of its last node that is the outcome, as JSON. Where it
	// is empty, the node's metrics are.
	OutcomeBlob string
	// EveryRound says that what OutcomeBlob holds stands in the curve as well, after every
	// round that was measured, by the name of the audit.
	EveryRound bool
	// CanaryOutcomesBlob names the blob of its last node that is a JSON array with an object
	// for each canary of the canaries block. Its members stand with the canary in
	// results. Empty: it says nothing of them one by one.
	CanaryOutcomesBlob string

	// Outcome returns what an outcome is decoded into.
	Outcome func() Outcome
	// Derive finds the outcome in what else is known of a cell; nil if there is none. It
	// is for descriptions without New.
	Derive func(*Cell) Outcome
	// InJSON puts a derived outcome into the JSON of results, by the name of the audit.
	InJSON bool
	// CanaryOutcome returns what is decoded from the members of a canary. nil: it says nothing
	// of canaries one by one.
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
	// Utility is how good the model of an outcome is at its task, above 0 and the larger the
	// better: what Charted is drawn against. false: the outcome does not say. It is nil for
	// all audits but one.
	Utility func(Outcome) (float64, bool)
}

// From adapts a function of an audit's own type of outcome to a field of its Description.
func From[O, R any](f func(*O) R) func(Outcome) R {
	return func(o Outcome) R { return f(o.(*O)) }
}
