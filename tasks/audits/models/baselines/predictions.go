package baselines

import (
	"coalmine/models"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

// prediction is a kind of labels of whole examples, as vectors of numbers.
type prediction struct {
	// outputs is the length of the vectors.
	outputs int
	// truth is the vector that the tokens of an example say.
	truth func(said []int32) []float32
	// measure says how good predictions are.
	measure func([]models.Labelled) (Utility, error)
	// outcome measures guesses for the asked examples by what is known of others.
	outcome func(known, asked labelled) (*Outcome, error)
}

// predicted is the entry for the label.
func (p *Params) predicted() *prediction {
	switch p.Label {
	case datasets.ScoreLabel:
		return p.scores()
	case datasets.TagsLabel:
		return p.tags()
	}
	return p.classes()
}

// classes are told by shares of neighbours: accuracy is that of the largest, of equals the
// first.
func (p *Params) classes() *prediction {
	return &prediction{
		outputs: p.Choices,
		truth:   func(said []int32) []float32 { return oneHot(p.Choices, said[0]-datasets.FirstWord) },
		measure: func(predicted []models.Labelled) (Utility, error) {
			hits := 0
			for _, x := range predicted {
				if most(x.Predicted) == most(x.Truth) {
					hits++
				}
			}
			return Utility{RecallAt1: new(float64(hits) / float64(len(predicted)))}, nil
		},
		outcome: func(known, asked labelled) (*Outcome, error) { return p.guessing(known.counts(), asked.counts()), nil },
	}
}

// counts are those of the first token that is said of each example.
func (l labelled) counts() (counts utility.Counts) {
	for _, said := range l {
		counts.Add(said[0])
	}
	return counts
}

func oneHot(n int, at int32) []float32 {
	v := make([]float32, n)
	v[at] = 1
	return v
}

// scores are numbers. Chance guesses one of those that occur among the known ones, each with
// the same probability; the constant is their median.
func (p *Params) scores() *prediction {
	return &prediction{
		outputs: 1,
		truth:   func(said []int32) []float32 { return []float32{float32(utility.ScoreOf(int(said[0])))} },
		measure: func(predicted []models.Labelled) (Utility, error) {
			mean := utility.MeanAbsoluteError(predicted)
			return Utility{MeanAbsoluteError: &mean}, nil
		},
		outcome: func(known, asked labelled) (*Outcome, error) {
			counts, scores, chance := known.counts(), asked.counts(), 0.0
			constant, n := scores.MeanAbsoluteError(counts.MedianScore())
			guesses := counts.Different()
			for _, guess := range guesses {
				mistake, _ := scores.MeanAbsoluteError(utility.ScoreOf(guess))
				chance += mistake / float64(len(guesses))
			}
			return &Outcome{Examples: n, Chance: Utility{MeanAbsoluteError: &chance}, Constant: &Utility{MeanAbsoluteError: &constant}}, nil
		},
	}
}

// tags do not exclude each other. Chance says the same of every example, so that the average
// precision of a tag is the share that has it.
func (p *Params) tags() *prediction {
	tags := &prediction{outputs: p.Choices}
	tags.truth = func(said []int32) []float32 {
		v := make([]float32, p.Choices)
		for at, label := range said {
			if p.Level.Scheme().Images { // which have a number for each tag
				v[at] = float32(label - datasets.FirstWord)
			} else {
				v[label-datasets.FirstWord] = 1
			}
		}
		return v
	}
	tags.measure = func(predicted []models.Labelled) (Utility, error) {
		mean, err := utility.MeanAveragePrecision(predicted)
		return Utility{MeanAveragePrecision: &mean}, err
	}
	tags.outcome = func(_, asked labelled) (*Outcome, error) {
		predicted := make([]models.Labelled, len(asked))
		for i, said := range asked {
			predicted[i] = models.Labelled{Truth: tags.truth(said), Predicted: make([]float32, p.Choices)}
		}
		chance, err := tags.measure(predicted)
		return &Outcome{Examples: int64(len(asked)), Chance: chance}, err
	}
	return tags
}
