package updatewords

import (
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/updates"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:      "update_words",
	Limits:    limits,
	Kinds:     []tasks.Kind{Kind},
	Powerless: "shares of words, without an interval or a test",
	Measures: slices.Concat([]audits.Measure{
		{Name: "update_words_recall", Of: audits.Of(func(v *Outcome) float64 { return v.Recall }), Header: "words recall %", Scale: audits.Percent, Digits: 1, Doc: "share of a device's distinct words that its update names, mean over recorded updates"},
		{Name: "update_words_precision", Of: audits.Of(func(v *Outcome) float64 { return v.Precision }), Header: "words precision %", Scale: audits.Percent, Digits: 1, Doc: "share of the named words that the device has, mean over recorded updates"},
		{Name: "update_words_ap", Of: audits.Of(func(v *Outcome) float64 { return v.AP }), Header: "words AP", Scale: audits.Percent, Digits: 1, Doc: "average precision of all words, ranked by the update, mean over updates"},
		{Name: "update_words_baseline_ap", Of: audits.Of(func(v *Outcome) float64 { return v.BaselineAP }), Doc: "average precision of words ranked by the number of devices that have them, without an update"},
	}, audits.Within(func(v *Outcome) *Canaries { return v.Canaries },
		audits.Measure{Name: "update_words_canaries", Of: audits.Of(func(c *Canaries) float64 { return c.Held.Share }), Doc: "share of updates of devices with a canary that name all of its words"},
		audits.Measure{Name: "update_words_canaries_found", Of: audits.Of(func(c *Canaries) int { return c.Found }), Doc: "canaries that an update of a device with them names"},
	)),
})

type Fields struct {
	// Infers each device's words and canaries from its recorded updates. Needs training.record.
	UpdateWords *Block `json:"update_words,omitempty"`
}

type Block struct {
	// embedding, whose rows change for used words, or output.bias, which grows for target words; by
	// default embedding with model.untied, else output.bias.
	Layer Layer `json:"layer" source:"Melis et al. 2019, section 4.1; Wainakh et al. 2022"`
}

const path = "audit.update_words"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	if given(path + ".layer") {
		return
	}
	f.UpdateWords.Layer = OutputBias
	if s.Untied {
		f.UpdateWords.Layer = Embedding
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	layer := f.UpdateWords.Layer
	observed.CheckRecorded(s, path, nil, fail)
	if s.Recorded == nil {
		return
	}
	at := slices.IndexFunc(s.Recorded.Layout.Layers, func(l updates.Layer) bool { return l.Name == string(layer) })
	switch {
	case at < 0:
		fail([]string{path + ".layer", "training.record.layers"}, "is %s, which training.record does not keep; add it to training.record.layers", layer)
	case s.Recorded.Layout.Layers[at].Of > 0:
		fail([]string{path + ".layer", "training.record.project"}, "is %s, which training.record projects to %d values, where no word has a place; leave training.record.project out", layer, s.Recorded.Layout.Layers[at].Values)
	}
}

func (f *Fields) Warnings(s *audits.Setting, _ *audits.Data) []string {
	if f.UpdateWords.Layer == Embedding && !s.Untied {
		return []string{path + ".layer is embedding, and model.untied is false: the rows of all words change, since they are the output layer's, too; output.bias tells more"}
	}
	return nil
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()),
		tasks.Input{Name: population.Input, Key: b.Population()}, tasks.Input{Name: population.ShardsInput, Key: b.Shards()}, tasks.Input{Name: population.PartsInput, Key: b.Parts()})
	return b.Node(Kind, "words in updates", Params{Layer: f.UpdateWords.Layer, Noise: b.Setting().Training.ClientNoise}, inputs...)
}

// States implements audits.Scorer: sorting the vocabulary for an update costs as much as some states.
func (f *Fields) States(s *audits.Setting) float64 { return float64(s.Ordinary) }

type Outcome struct {
	// Devices is the number of devices of the measured updates.
	Devices int `json:"devices" doc:"number of devices of the measured updates"`
	// Round has the means over all updates. Its number is the last one.
	Round
	// BaselineAP is the AP of words ranked by the number of these devices that have them, without an update:
	// a mean over updates, as AP.
	BaselineAP float64 `json:"baseline_ap" doc:"average precision of words ranked by the number of devices that have them"`
	// Rounds has the means by round, or by ranges of rounds if there are more than a hundred.
	Rounds []Round `json:"rounds" doc:"in a round or a range of rounds"`
	// Canaries is nil if the data have none.
	Canaries *Canaries `json:"canaries,omitempty"`
}

// Round has means over the updates of a round.
type Round struct {
	// Round is the number, or the first of a range.
	Round   int `json:"round" doc:"number of the round: in the totals the last one, of a range the first"`
	Updates int `json:"updates" doc:"number of measured updates"`
	// Words is the number of distinct ordinary words of a device, Named the number of words that its update
	// names, Hits the number of words in both.
	Words float64 `json:"words" doc:"mean number of distinct ordinary words of a device"`
	Named float64 `json:"named" doc:"mean number of words that an update names"`
	Hits  float64 `json:"hits" doc:"mean number of a device's words that its update names"`
	// Precision is Hits / Named, or 0; Recall is Hits / Words.
	Precision float64 `json:"precision" doc:"hits divided by named words"`
	Recall    float64 `json:"recall" doc:"hits divided by the device's words"`
	// AP is the average precision of all ordinary words, ranked by the update.
	AP float64 `json:"ap" doc:"average precision of all ordinary words, ranked by the update"`
}

// Canaries counts updates that name all words of a canary.
type Canaries struct {
	// Held counts updates of devices with the canary, by canary; Others counts those of devices without it.
	Held   Count `json:"held" doc:"of updates of devices with the canary"`
	Others Count `json:"others" doc:"of updates of devices without the canary"`
	// Found is the number of canaries that an update of a device with them named.
	Found int `json:"found" doc:"number of canaries that an update of a device with them names"`
}

// Count counts updates, and those that name all words.
type Count struct {
	Named int     `json:"named" doc:"number of updates that name the canary"`
	Of    int     `json:"of" doc:"number of updates"`
	Share float64 `json:"share" doc:"share of updates that name the canary"`
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("words in updates: %d updates of %d devices name %.1f of their devices' %.1f words in the mean; AP %.1f, by the words' frequency alone %.1f",
		v.Updates, v.Devices, v.Hits, v.Words, 100*v.AP, 100*v.BaselineAP)
	if c := v.Canaries; c != nil {
		note += fmt.Sprintf("; all words of a canary are named by %d of %d updates of devices that have it, and by %d of %d of others; canaries found: %d",
			c.Held.Named, c.Held.Of, c.Others.Named, c.Others.Of, c.Found)
	}
	return note
}

func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	if len(v.Rounds) < 2 {
		return nil
	}
	f := &audits.Figure{
		Name: "Words read off updates", About: "Line: recall by round; circles: precision.", Title: "recall and precision of a device's words by round",
		X: audits.Axis{Title: "round", Whole: true, Max: float64(v.Rounds[len(v.Rounds)-1].Round)}, Y: audits.Axis{Title: "share of words", Max: 1},
		Lines: []audits.Line{{Name: "recall"}}, Open: "precision",
	}
	for _, r := range v.Rounds {
		f.Lines[0].Points = append(f.Lines[0].Points, audits.Point{X: float64(r.Round), Y: r.Recall})
		f.Dots = append(f.Dots, audits.Dot{X: float64(r.Round), Y: r.Precision, About: fmt.Sprintf("round %d: precision %.3f, recall %.3f", r.Round, r.Precision, r.Recall)})
	}
	return f
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "update_words",
	Doc:   "Average precision of the words read off updates.",
	Range: "[1,1e9]", Unit: "times that of the words' frequency",
	Breaches: audits.Judged("update_words", func(v *Outcome, limit float64) []string {
		if v.BaselineAP <= 0 {
			return audits.NoValue("update_words", "the words' frequency has no average precision")
		}
		return audits.AboveLimit("the AP of words read off updates, over that by their frequency alone,", v.AP/v.BaselineAP, limit)
	}),
}.Limit()}
