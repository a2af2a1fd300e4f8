package baselines

import (
	"slices"

	"coalmine/models"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

// prediction is what is predicted of whole examples, as vectors of numbers.
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
		outcome: func(known, asked labelled) (*Outcome, error) {
			constant := guessing(mostFrequent(p.perClass(known)), p.perClass(asked), int64(len(asked)))
			return &Outcome{Examples: int64(len(asked)), Chance: guessingAmong(p.Choices), Constant: &constant}, nil
		},
	}
}

func (p *Params) perClass(examples labelled) []int64 {
	counts := make([]int64, p.Choices)
	for _, said := range examples {
		counts[said[0]-datasets.FirstWord]++
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
	s := &prediction{outputs: 1}
	s.truth = func(said []int32) []float32 {
		return []float32{models.LowestScore + models.ScoreStep*float32(said[0]-datasets.FirstWord)}
	}
	s.measure = func(predicted []models.Labelled) (Utility, error) {
		mean := utility.MeanAbsoluteError(predicted)
		return Utility{MeanAbsoluteError: &mean}, nil
	}
	s.outcome = func(known, asked labelled) (*Outcome, error) {
		var scores []float32
		for _, said := range known {
			scores = append(scores, s.truth(said)[0])
		}
		slices.Sort(scores)
		constant := s.erring(median(scores), asked)
		guesses, chance := slices.Compact(slices.Clone(scores)), 0.0
		for _, guess := range guesses {
			chance += s.erring(guess, asked) / float64(len(guesses))
		}
		return &Outcome{Examples: int64(len(asked)), Chance: Utility{MeanAbsoluteError: &chance}, Constant: &Utility{MeanAbsoluteError: &constant}}, nil
	}
	return s
}

// erring is the mean absolute error of always guessing one score.
func (p *prediction) erring(guess float32, asked labelled) float64 {
	predicted := make([]models.Labelled, len(asked))
	for i, said := range asked {
		predicted[i] = models.Labelled{Truth: p.truth(said), Predicted: []float32{guess}}
	}
	return utility.MeanAbsoluteError(predicted)
}

// median of sorted numbers, of an even number of them the middle of the two.
func median(sorted []float32) float32 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
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
