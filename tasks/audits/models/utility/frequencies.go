package utility

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// Reading selects the tokens that a model predicts: the parameters of evaluation/frequencies.
type Reading struct {
	Level text.Level   `json:"level,omitzero"`
	Label source.Label `json:"label,omitempty"`
	Pairs bool         `json:"pairs,omitempty"`
}

// ReadingOf returns the reading of an experiment's data.
func ReadingOf(s *audits.Setting) Reading {
	r := Reading{Level: s.Reading.Level, Label: s.Reading.Label, Pairs: s.Reading.Pairs}
	if r.Level == text.WordLevel {
		r.Level = "" // the form of parameters of other kinds
	}
	return r
}

// OfWords reports whether words are predicted, not labels of examples.
func (r Reading) OfWords() bool { return r.Label == "" && !r.Level.Scheme().Images }

// Frequencies measures the utility of a model with the frequencies of ordinary targets in the training part.
// Its guess is the most frequent one, of equals the lowest. The probability of target w is (n(w)+1)/(N+V),
// where n(w) counts w and N all ordinary targets of the training part, and V the different ones of both
// parts. For scores it guesses the median. Its input is DataInput, its metrics an Outcome.
var Frequencies = tasks.Kind{Name: "evaluation/frequencies", Version: 1, Class: tasks.Compute, Run: audits.Measuring(frequencies)}

func frequencies(ctx context.Context, t *tasks.Task, r *Reading) (v Outcome, err error) {
	train, test, err := OpenParts(ctx, t)
	if err != nil {
		return v, err
	}
	known, asked, err := r.CountBoth(ctx, train, test)
	switch {
	case err != nil:
		return v, err
	case r.Label == source.ScoreLabel:
		return known.scores(asked), nil
	}
	return known.predict(asked), nil
}

func OpenParts(ctx context.Context, t *tasks.Task) (train, test *population.Population, err error) {
	if train, err = population.OpenPart(ctx, t, DataInput, population.Train); err == nil {
		test, err = population.OpenPart(ctx, t, DataInput, population.Test)
	}
	return train, test, err
}

// EachSentence calls do with the sentences of a part, in their order.
func EachSentence(ctx context.Context, part *population.Population, do func(sentence []int32) error) error {
	for user := range part.Users() {
		sentences, err := part.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for _, s := range sentences {
			if err := do(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Counts counts targets by token.
type Counts []int64

func (c *Counts) Add(token int32) {
	*c = append(*c, make(Counts, max(0, int(token)+1-len(*c)))...)
	(*c)[token]++
}

// Different returns the tokens that occur, ascending.
func (c Counts) Different() (tokens []int) {
	for token, n := range c {
		if n > 0 {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// Count counts the ordinary targets of a part.
func (r Reading) Count(ctx context.Context, part *population.Population) (counts Counts, err error) {
	err = EachSentence(ctx, part, func(sentence []int32) error {
		for _, target := range r.targets(sentence) {
			if isOrdinary(target) {
				counts.Add(target)
			}
		}
		return nil
	})
	return counts, err
}

// CountBoth counts the ordinary targets of the training and the test part.
func (r Reading) CountBoth(ctx context.Context, train, test *population.Population) (known, asked Counts, err error) {
	if known, err = r.Count(ctx, train); err == nil {
		asked, err = r.Count(ctx, test)
	}
	return known, asked, err
}

// targets returns the predicted tokens: words except the first, for a pair those after the separator, and
// otherwise the label, which an image may lack.
func (r Reading) targets(sentence []int32) []int32 {
	switch {
	case r.OfWords() && r.Pairs:
		return sentence[1+slices.Index(sentence, text.Separator):]
	case r.OfWords():
		return sentence[1:]
	case sentence[1] == text.Unknown:
		return nil
	}
	return sentence[1:2]
}

// predict measures the frequencies of one part on the ordinary targets of another.
func (c Counts) predict(asked Counts) Outcome {
	known, asked := c.extended(len(asked)), asked.extended(len(c))
	all, different, first := int64(0), int64(0), text.FirstWord
	for w := text.FirstWord; w < len(known); w++ {
		all += known[w]
		if known[w]+asked[w] > 0 {
			different++
		}
		if known[w] > known[first] {
			first = w
		}
	}
	var tally models.Tally
	for w := text.FirstWord; w < len(asked); w++ {
		tally.Tokens += asked[w]
		tally.Loss -= float64(float64(asked[w]) * math.Log(float64(known[w]+1)/float64(all+different)))
	}
	if tally.Tokens == 0 {
		return Outcome{} // evaluation/utility reports the reason
	}
	tally.Hits = asked[first]
	return new(SumParams).outcome(tally)
}

// extended returns the counts of at least size tokens.
func (c Counts) extended(size int) Counts {
	return append(slices.Clone(c), make(Counts, max(0, size-len(c)))...)
}

// scores measures the median score of one part as the guess for another.
func (c Counts) scores(asked Counts) Outcome {
	mistake, tokens := asked.MeanAbsoluteError(c.MedianScore())
	if tokens == 0 {
		return Outcome{}
	}
	return Outcome{MeanAbsoluteError: &mistake, Tokens: tokens}
}

// MeanAbsoluteError returns the error of one guess for all scores, and the number of scores.
func (c Counts) MeanAbsoluteError(guess float64) (mean float64, scores int64) {
	for token, n := range c {
		mean += float64(float64(n) * math.Abs(ScoreOf(token)-guess))
		scores += n
	}
	return mean / float64(scores), scores
}

// ScoreOf returns the score of a token.
func ScoreOf(token int) float64 {
	return models.LowestScore + models.ScoreStep*float64(token-text.FirstWord)
}

// MedianScore returns the median. For an even number of scores it is the middle of two, and without scores
// the lowest score.
func (c Counts) MedianScore() float64 {
	var scores []float64
	for token, n := range c {
		scores = append(scores, slices.Repeat([]float64{ScoreOf(token)}, int(n))...)
	}
	if len(scores) == 0 {
		return ScoreOf(text.FirstWord)
	}
	return (scores[(len(scores)-1)/2] + scores[len(scores)/2]) / 2
}

// baseline adds the node of the baseline, and returns it as BaselineInput. Tags have none, because
// frequencies do not rank texts.
func baseline(b audits.Builder) []tasks.Input {
	r := ReadingOf(b.Setting())
	if r.Label == source.TagsLabel {
		return nil
	}
	node := b.Node(Frequencies, "frequencies in the test part", r, tasks.Input{Name: DataInput, Key: b.Parts()})
	return []tasks.Input{{Name: BaselineInput, Key: node}}
}

// A mean loss is better than that of frequencies if it is lower by minLoss of theirs; a recall if it is
// higher by minShare of the smaller of theirs and its complement, and by minErrors standard errors.
const (
	minLoss   = 0.03
	minShare  = 0.25
	minErrors = 3
)

// atBaseline reports whether the utility is no better than the baseline's: the perplexity, where there is one,
// because a model that diverged may still be right more often. It is false without a baseline.
func (v *Outcome) atBaseline() bool {
	b := v.Baseline
	switch {
	case b == nil || b.Tokens == 0:
		return false
	case v.MeanAbsoluteError != nil:
		return *v.MeanAbsoluteError > (1-minLoss)**b.MeanAbsoluteError
	case v.MeanAveragePrecision != nil:
		return *v.MeanAveragePrecision < *b.MeanAveragePrecision+least(*b.MeanAveragePrecision)
	}
	return math.Log(float64(v.Perplexity)) > (1-minLoss)*math.Log(float64(b.Perplexity))
}

// moreAccurate reports whether a known recall is better than the baseline's.
func (v *Outcome) moreAccurate() bool {
	b := v.Baseline
	chance := minErrors * math.Sqrt(b.RecallAt1*(1-b.RecallAt1)/float64(v.Tokens))
	return v.RecallUnknown == "" && v.RecallAt1 >= b.RecallAt1+max(least(b.RecallAt1), chance)
}

// least returns the required gain of a share.
func least(share float64) float64 { return minShare * min(share, 1-share) }

// baselineNote describes a utility at the baseline, and its possible causes.
func (v *Outcome) baselineNote() string {
	const frequencies, why = "word or class frequencies", "the model has learned little, diverged or overfitted"
	switch b := v.Baseline; {
	case b.MeanAbsoluteError != nil:
		return fmt.Sprintf("utility is at the level of the median score always guessed (MAE %.3f): %s", *b.MeanAbsoluteError, why)
	case b.MeanAveragePrecision != nil:
		return fmt.Sprintf("utility is at the level of texts in any order (mean AP %.3f): %s", *b.MeanAveragePrecision, why)
	case v.moreAccurate():
		return fmt.Sprintf("perplexity is no better than that of %s, %s, though accuracy is: the model diverged or is overconfident", frequencies, numbers.Decimal(b.Perplexity, 1))
	default:
		return fmt.Sprintf("utility is at the level of %s (accuracy %.1f%%, perplexity %s): %s", frequencies, 100*b.RecallAt1, numbers.Decimal(b.Perplexity, 1), why)
	}
}
