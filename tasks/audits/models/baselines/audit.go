package baselines

import (
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/source"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:   "baselines",
	Models: audits.Anything,
	Kinds:  []tasks.Kind{Kind},
	AtEnd:  true,
	Pairs:  audits.EverySecret,
	Measures: slices.Concat(
		baseline("chance", "chance", "random guesses", func(v *Outcome) *Utility { return &v.Chance }, "recall_at_1", "recall_at_5", "mean_absolute_error", "mean_average_precision"),
		baseline("constant", "constant", "the constant answer that fits the training part best", func(v *Outcome) *Utility { return v.Constant }, "recall_at_1", "recall_at_5", "mean_absolute_error"),
		baseline("neighbours", "10-NN", "the 10 nearest training examples", (*Outcome).neighbours, "recall_at_1", "mean_absolute_error", "mean_average_precision"),
	),
})

type Fields struct {
	// Utility without a model: by chance, the best constant answer and, of images and labels of texts, 10
	// nearest neighbours in the training part.
	Baselines bool `json:"baselines,omitempty" default:"false" also:"baseline chance knn" source:"Orekondy et al. 2018, table 2"`
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(s.Generator, []string{"audit.baselines", "model.kind"}, "measures what a model could be held against, and a gan predicts nothing; set it to false for this cell")
	audits.CheckTest(s, fail, "audit.baselines", "set audit.baselines to false")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	audits.CheckTestData(s, d, fail, "set audit.baselines to false")
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	return b.Node(Kind, "baselines", paramsOf(b.Setting()), tasks.Input{Name: utility.DataInput, Key: b.Parts()})
}

func paramsOf(s *audits.Setting) Params {
	p := Params{utility.ReadingOf(s), s.Ordinary}
	switch {
	case p.Label == source.TagsLabel:
		p.Choices = len(s.Reading.TagList())
	case p.Label != "":
		p.Choices = len(s.Reading.LabelWords())
	case p.Level.Scheme().Images:
		p.Choices = s.Reading.Image.Classes
	}
	return p
}

// baseline returns a column of tables, and the metrics of one baseline.
func baseline(name, header, by string, find func(*Outcome) *Utility, has ...string) []audits.Measure {
	shown := audits.Measure{Header: header, Doc: "accuracy and top-5 in %, mean absolute error, or mean average precision", Of: audits.Of((*Utility).String), Optional: name != "chance"}
	return audits.Within(find, audits.Qualified(", of "+by+" in place of the model", append([]audits.Measure{shown}, audits.Columns[Utility](name+"_", has...)...)...)...)
}

type Outcome struct {
	Examples int64 `json:"examples" doc:"number of ordinary words, or of labelled examples, in the test part"`
	// Chance guesses at random: words, classes, or scores of the training part with equal probabilities; tags
	// in any order.
	Chance Utility `json:"chance" doc:"of answers at random"`
	// Constant is the answer that fits the training part best: its most frequent words or classes, the median
	// score. It is nil for tags, where it equals chance.
	Constant *Utility `json:"constant,omitempty" doc:"of the most frequent words or classes, or the median score"`
	// Neighbours is by neighbours in the training part; nil for words.
	Neighbours *Nearest `json:"nearest_neighbours,omitempty" doc:"by neighbours in the training part"`
}

// Utility has the numbers that a model's utility would have.
type Utility struct {
	// RecallAt1, the accuracy, and RecallAt5 are shares of words or of classes.
	RecallAt1            *float64 `json:"recall_at_1,omitempty" doc:"accuracy: share of words or labels"`
	RecallAt5            *float64 `json:"recall_at_5,omitempty" doc:"top-5 accuracy"`
	MeanAbsoluteError    *float64 `json:"mean_absolute_error,omitempty" doc:"mean absolute error of scores"`
	MeanAveragePrecision *float64 `json:"mean_average_precision,omitempty" doc:"mean average precision of tags"`
}

// Nearest is the utility of the mean of the K nearest of Among training examples, for Asked test examples.
type Nearest struct {
	Utility
	K     int `json:"k" doc:"number of neighbours that decide"`
	Asked int `json:"asked" doc:"number of test examples whose neighbours were searched"`
	Among int `json:"among" doc:"number of training examples that were searched"`
}

func (v *Outcome) neighbours() *Utility {
	if v.Neighbours == nil {
		return nil
	}
	return &v.Neighbours.Utility
}

// String returns the form "11.2", "0.05, top-5 0.25" or "0.512": recalls in percent, other numbers unchanged.
func (u *Utility) String() string {
	switch {
	case u == nil:
		return ""
	case u.MeanAbsoluteError != nil:
		return fmt.Sprintf("%.3f", *u.MeanAbsoluteError)
	case u.MeanAveragePrecision != nil:
		return fmt.Sprintf("%.3f", *u.MeanAveragePrecision)
	case u.RecallAt1 == nil:
		return ""
	case u.RecallAt5 == nil:
		return percent(*u.RecallAt1)
	}
	return percent(*u.RecallAt1) + ", top-5 " + percent(*u.RecallAt5)
}

// percent formats a share in percent, with two decimals below 1%.
func percent(share float64) string {
	if share < 0.01 {
		return fmt.Sprintf("%.2f", 100*share)
	}
	return fmt.Sprintf("%.1f", 100*share)
}
