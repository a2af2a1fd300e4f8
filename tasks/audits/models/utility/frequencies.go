package utility

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/extended"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// FrequenciesParams are the parameters of evaluation/frequencies.
type FrequenciesParams struct {
	// Level, Label and Pairs are those of the data's reading.
	Level datasets.Level `json:"level,omitzero"`
	Label datasets.Label `json:"label,omitempty"`
	Pairs bool           `json:"pairs,omitempty"`
}

// Frequencies measures the utility of a model that knows only how often each ordinary target occurs
// in the training part. Its first guess is the most frequent one, of equals the lowest; the
// probability of target w is (n(w)+1)/(N+V), where n(w) counts w and N all ordinary targets of the
// training part, and V the different ones of both parts. Of scores it guesses the median. Input:
// DataInput, datasets/encode. Its metrics are an Outcome.
var Frequencies = tasks.Kind{Name: "evaluation/frequencies", Version: 1, Class: tasks.Compute, Run: runFrequencies}

func runFrequencies(ctx context.Context, t *tasks.Task) error {
	var p FrequenciesParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	known, err := p.count(ctx, t, datasets.Train)
	if err != nil {
		return err
	}
	asked, err := p.count(ctx, t, datasets.Test)
	if err != nil {
		return err
	}
	if p.Label == datasets.ScoreLabel {
		return t.SetMetrics(known.scores(asked))
	}
	return t.SetMetrics(known.predict(asked))
}

// targetCounts are how often each token is a target.
type targetCounts []int64

// count counts the ordinary targets of a part.
func (p *FrequenciesParams) count(ctx context.Context, t *tasks.Task, of datasets.Part) (targetCounts, error) {
	part, err := datasets.OpenPart(ctx, t, DataInput, of)
	if err != nil {
		return nil, err
	}
	return CountOrdinary(ctx, part, p.targets)
}

// CountOrdinary counts, by token, the ordinary ones among the targets of all sentences of a part.
func CountOrdinary(ctx context.Context, part *datasets.Population, targets func(sentence []int32) []int32) (counts []int64, err error) {
	for user := range part.Users() {
		sentences, err := part.ReadUser(ctx, user)
		if err != nil {
			return nil, err
		}
		for _, s := range sentences {
			for _, target := range targets(s) {
				if target < datasets.FirstWord {
					continue
				}
				counts = append(counts, make([]int64, max(0, int(target)+1-len(counts)))...)
				counts[target]++
			}
		}
	}
	return counts, nil
}

// targets are the tokens of a sentence that a model predicts.
func (p *FrequenciesParams) targets(sentence []int32) []int32 {
	switch {
	case p.Label == "" && !p.Level.Scheme().Images:
		return Targets(sentence, p.Pairs)
	case sentence[1] == datasets.Unknown: // an image without a label
		return nil
	}
	return sentence[1:2]
}

// Targets are the tokens of a sentence that a language model predicts: all but the first, of a pair
// those after the separator.
func Targets(sentence []int32, pairs bool) []int32 {
	if pairs {
		return sentence[1+slices.Index(sentence, datasets.Separator):]
	}
	return sentence[1:]
}

// predict measures how well the frequencies of one part predict the ordinary targets of another.
func (known targetCounts) predict(asked targetCounts) Outcome {
	known, asked = known.extended(len(asked)), asked.extended(len(known))
	all, different, first := int64(0), int64(0), datasets.FirstWord
	for w := datasets.FirstWord; w < len(known); w++ {
		all += known[w]
		if known[w]+asked[w] > 0 {
			different++
		}
		if known[w] > known[first] {
			first = w
		}
	}
	var tally models.Tally
	for w := datasets.FirstWord; w < len(asked); w++ {
		tally.Tokens += asked[w]
		tally.Loss -= float64(float64(asked[w]) * math.Log(float64(known[w]+1)/float64(all+different)))
	}
	if tally.Tokens == 0 {
		return Outcome{} // evaluation/utility says why
	}
	tally.Hits = asked[first]
	return SumParams{}.outcome(tally)
}

// extended has at least so many counts.
func (known targetCounts) extended(size int) targetCounts {
	return append(slices.Clone(known), make(targetCounts, max(0, size-len(known)))...)
}

// scores measures the median score of one part as the guess of all scores of another. Of an even
// number it is the middle of the two.
func (known targetCounts) scores(asked targetCounts) Outcome {
	sum, tokens := 0.0, int64(0)
	for label, n := range asked {
		sum += float64(float64(n) * math.Abs(scoreOf(label)-known.median()))
		tokens += n
	}
	if tokens == 0 {
		return Outcome{}
	}
	return Outcome{MeanAbsoluteError: new(sum / float64(tokens)), Tokens: tokens}
}

func scoreOf(label int) float64 {
	return models.LowestScore + models.ScoreStep*float64(label-datasets.FirstWord)
}

func (known targetCounts) median() float64 {
	var scores []float64
	for label, n := range known {
		scores = append(scores, slices.Repeat([]float64{scoreOf(label)}, int(n))...)
	}
	if len(scores) == 0 {
		return scoreOf(datasets.FirstWord)
	}
	return (scores[(len(scores)-1)/2] + scores[len(scores)/2]) / 2
}

// baseline adds the input of evaluation/utility that the outcome is held against. Of tags there is
// none: whatever their frequencies, they rank no text before another.
func baseline(b audits.Builder) []tasks.Input {
	r := b.Setting().Reading
	if r.Label == datasets.TagsLabel {
		return nil
	}
	p := FrequenciesParams{Level: r.Level, Label: r.Label, Pairs: r.Pairs}
	if p.Level == datasets.WordLevel {
		p.Level = "" // as parameters of other kinds have it
	}
	node := b.Node(Frequencies, "frequencies in the test part", p, tasks.Input{Name: DataInput, Key: b.Parts()})
	return []tasks.Input{{Name: BaselineInput, Key: node}}
}

// sum adds the node of a measurement.
func (f *Fields) sum(b audits.Builder, round int, parts ...tasks.Input) storage.Key {
	return b.Node(Sum, fmt.Sprintf("utility after %d", round), SumParams{Shares: len(parts), Top: f.RecallAt5}, append(parts, baseline(b)...)...)
}

// A model has learned more than frequencies if its mean loss is lower than theirs by leastLoss of
// it, or if its recall is higher by more than chance: by leastShare of the smaller of theirs and
// what is missing from it to 1, and by leastErrors standard errors.
const (
	leastLoss   = 0.03
	leastShare  = 0.25
	leastErrors = 3
)

// atBaseline reports whether the utility is at the level of its baseline. It is false without one.
func (v *Outcome) atBaseline() bool {
	b := v.Baseline
	switch {
	case b == nil || b.Tokens == 0:
		return false
	case v.MeanAbsoluteError != nil:
		return *v.MeanAbsoluteError > (1-leastLoss)**b.MeanAbsoluteError
	case v.MeanAveragePrecision != nil:
		return *v.MeanAveragePrecision < *b.MeanAveragePrecision+least(*b.MeanAveragePrecision)
	}
	chance := leastErrors * math.Sqrt(b.RecallAt1*(1-b.RecallAt1)/float64(v.Tokens))
	return v.RecallAt1 < b.RecallAt1+max(least(b.RecallAt1), chance) &&
		math.Log(float64(v.Perplexity)) > (1-leastLoss)*math.Log(float64(b.Perplexity))
}

// least is by how much a share has to be higher.
func least(share float64) float64 { return leastShare * min(share, 1-share) }

// baselineText is "word or class frequencies (accuracy 5.2%, perplexity 389.1)".
func (v *Outcome) baselineText() string {
	switch b := v.Baseline; {
	case b.MeanAbsoluteError != nil:
		return fmt.Sprintf("the median score always guessed (MAE %.3f)", *b.MeanAbsoluteError)
	case b.MeanAveragePrecision != nil:
		return fmt.Sprintf("texts in any order (mean AP %.3f)", *b.MeanAveragePrecision)
	default:
		return fmt.Sprintf("word or class frequencies (accuracy %.1f%%, perplexity %s)", 100*b.RecallAt1, extended.Decimal(b.Perplexity, 1))
	}
}
