package baselines

import (
	"context"
	"errors"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
)

// Neighbours is the number of nearest neighbours of each query (Orekondy et al. 2018, section 5.3).
const Neighbours = 10

// Bounds on the number of queries among the test examples.
const (
	maxQueries  = 10000
	maxFeatures = 16 << 20 // in total
)

// labelled are the label tokens of the examples with a label.
type labelled [][]int32

func (p *Params) labels(ctx context.Context, t *tasks.Task, train, test *population.Population) (*Outcome, error) {
	search, asked, err := p.queries(ctx, train, test)
	if err != nil {
		return nil, err
	}
	known, err := search.show(ctx, t, train)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 || len(asked.all) == 0 {
		return nil, tasks.Permanent(errors.New("the training or the test part holds no example with a label: set data.test.fraction so that both do"))
	}
	v, err := p.predicted().outcome(known, asked.all)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	found, err := p.predicted().measure(search.predict(p.predicted(), known, asked))
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	v.Neighbours = &Nearest{Utility: found, K: Neighbours, Asked: len(asked.queries), Among: len(known)}
	return v, nil
}

// questions are the examples of the test part, and the queries among them.
type questions struct {
	all     labelled
	queries []int
}

type searching struct {
	*attacks.Search
	layout devices.FeatureLayout
	set    devices.FeatureSet
}

// queries reads the test part. If there are too many examples, evenly spread ones are queries.
func (p *Params) queries(ctx context.Context, train, test *population.Population) (*searching, *questions, error) {
	set, err := devices.NewFeatures(ctx, p.layout(), train)
	if err != nil {
		return nil, nil, err
	}
	s, q := &searching{layout: p.layout(), set: set}, &questions{}
	n, records := min(test.Records(), maxQueries, max(1, maxFeatures/set.Dimension())), 0
	var rows []float32
	err = utility.EachSentence(ctx, test, func(sentence []int32) error {
		said, content := s.divide(sentence)
		if said != nil {
			if len(q.queries)*test.Records() <= records*n && len(q.queries) < n {
				q.queries, rows = append(q.queries, len(q.all)), s.appendRow(rows, content)
			}
			q.all = append(q.all, said)
		}
		records++
		return nil
	})
	s.Search = attacks.NewSearch(rows, set.Dimension(), Neighbours)
	return s, q, err
}

// divide splits an example into label tokens, absent for an image without a label, and content.
func (s *searching) divide(sentence []int32) (said, content []int32) {
	said, content = s.layout.Divide(devices.FeatureWords(sentence))
	if s.layout.Images && said[0] == text.Unknown {
		return nil, content
	}
	return append([]int32{}, said...), content
}

func (s *searching) appendRow(rows []float32, content []int32) []float32 {
	at := len(rows)
	rows = append(rows, make([]float32, s.set.Dimension())...)
	s.set.Fill(rows[at:], content)
	return rows
}

// block is the number of examples that are processed at once. It does not affect results.
const block = 256

func (s *searching) show(ctx context.Context, t *tasks.Task, train *population.Population) (known labelled, err error) {
	var rows []float32
	var ids []int
	flush := func() error {
		err := s.Show(ctx, rows, ids)
		t.Progress(tasks.Progress{Done: int64(len(known)), Total: int64(train.Records())})
		rows, ids = rows[:0], ids[:0]
		return err
	}
	err = utility.EachSentence(ctx, train, func(sentence []int32) error {
		said, content := s.divide(sentence)
		if said == nil {
			return nil
		}
		rows, ids = s.appendRow(rows, content), append(ids, len(known))
		if known = append(known, said); len(ids) == block {
			return flush()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return known, flush()
}

// predict predicts for each query the mean of its neighbours.
func (s *searching) predict(p *prediction, known labelled, asked *questions) []models.Labelled {
	return lists.Make(len(asked.queries), func(i int) models.Labelled {
		mean, near := make([]float32, p.outputs), s.Nearest(i)
		for _, id := range near {
			for j, v := range p.truth(known[id]) {
				mean[j] += v / float32(len(near))
			}
		}
		return models.Labelled{Truth: p.truth(asked.all[asked.queries[i]]), Predicted: mean}
	})
}

// most returns the index of the largest value, the first of equals.
func most(values []float32) int { return slices.Index(values, slices.Max(values)) }

// prediction is a kind of labels of whole examples, as vectors of length outputs.
type prediction struct {
	outputs int
	// truth returns the vector of an example's label tokens.
	truth   func(said []int32) []float32
	measure func([]models.Labelled) (Utility, error)
	// outcome measures predictions for the asked examples from the known ones.
	outcome func(known, asked labelled) (*Outcome, error)
}

func (p *Params) predicted() *prediction {
	switch p.Label {
	case source.ScoreLabel:
		return p.scores()
	case source.TagsLabel:
		return p.tags()
	}
	return p.classes()
}

// classes returns the prediction of classes: the class of the largest share of neighbours, of equals the first.
func (p *Params) classes() *prediction {
	return &prediction{
		outputs: p.Choices,
		truth:   func(said []int32) []float32 { return oneHot(p.Choices, said[0]-text.FirstWord) },
		measure: func(predicted []models.Labelled) (Utility, error) {
			hits := lists.Count(predicted, func(x models.Labelled) bool { return most(x.Predicted) == most(x.Truth) })
			return Utility{RecallAt1: new(float64(hits) / float64(len(predicted)))}, nil
		},
		outcome: func(known, asked labelled) (*Outcome, error) { return p.guessing(known.counts(), asked.counts()), nil },
	}
}

// counts returns the counts of the first label token of each example.
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

// scores returns the prediction of scores. Chance guesses each known score with the same probability. The
// constant is the median.
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

// tags returns the prediction of tags, which do not exclude each other. Chance predicts the same for every
// example: the average precision of a tag is then its share.
func (p *Params) tags() *prediction {
	tags := &prediction{outputs: p.Choices}
	tags.truth = func(said []int32) []float32 {
		v := make([]float32, p.Choices)
		for at, label := range said {
			if p.Level.Scheme().Images { // images have a number for each tag
				v[at] = float32(label - text.FirstWord)
			} else {
				v[label-text.FirstWord] = 1
			}
		}
		return v
	}
	tags.measure = func(predicted []models.Labelled) (Utility, error) {
		mean, err := utility.MeanAveragePrecision(predicted)
		return Utility{MeanAveragePrecision: &mean}, err
	}
	tags.outcome = func(_, asked labelled) (*Outcome, error) {
		chance, err := tags.measure(lists.Map(asked, func(said []int32) models.Labelled {
			return models.Labelled{Truth: tags.truth(said), Predicted: make([]float32, p.Choices)}
		}))
		return &Outcome{Examples: int64(len(asked)), Chance: chance}, err
	}
	return tags
}
