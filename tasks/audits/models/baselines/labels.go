package baselines

import (
	"context"
	"errors"
	"slices"

	"coalmine/models"
	"coalmine/models/neighbours"
	"coalmine/tasks"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
	"coalmine/tasks/features"
)

// Neighbours is how many are asked (Orekondy et al. 2018, section 5.3).
const Neighbours = 10

// Bounds of the test examples whose neighbours are looked for.
const (
	mostQueries  = 10000
	mostFeatures = 16 << 20 // in all
)

// labelled are the examples of a part of which something is said: the tokens that say it, by
// example.
type labelled [][]int32

// labels measures guesses of the labels of whole examples.
func (p *Params) labels(ctx context.Context, t *tasks.Task, train, test *datasets.Population) (*Outcome, error) {
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

// questions are the examples of the test part, and those among them whose neighbours are
// looked for.
type questions struct {
	all     labelled
	queries []int
}

// searching shows a part to a search.
type searching struct {
	*neighbours.Search
	layout features.Layout
	set    features.Set
}

// queries reads the test part. Where it has too many examples, queries are spread evenly.
func (p *Params) queries(ctx context.Context, train, test *datasets.Population) (*searching, *questions, error) {
	set, err := features.New(ctx, p.layout(), train)
	if err != nil {
		return nil, nil, err
	}
	s, q := &searching{layout: p.layout(), set: set}, &questions{}
	n, records := min(test.Records(), mostQueries, max(1, mostFeatures/set.Dimension())), 0
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
	s.Search = neighbours.NewSearch(rows, set.Dimension(), Neighbours)
	return s, q, err
}

// divide takes an example apart; nothing is said of an image without a label.
func (s *searching) divide(sentence []int32) (said, content []int32) {
	said, content = s.layout.Divide(features.WordsOf(sentence))
	if s.layout.Images && said[0] == datasets.Unknown {
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

// block is how many examples are shown at once. It does not show in any result.
const block = 256

// show goes through the training part.
func (s *searching) show(ctx context.Context, t *tasks.Task, train *datasets.Population) (known labelled, err error) {
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

// predict says of each query the mean of its neighbours.
func (s *searching) predict(p *prediction, known labelled, asked *questions) []models.Labelled {
	predicted := make([]models.Labelled, len(asked.queries))
	for i, query := range asked.queries {
		mean, near := make([]float32, p.outputs), s.Nearest(i)
		for _, id := range near {
			for j, v := range p.truth(known[id]) {
				mean[j] += v / float32(len(near))
			}
		}
		predicted[i] = models.Labelled{Truth: p.truth(asked.all[query]), Predicted: mean}
	}
	return predicted
}

// most is the place of the largest value, the first of equals.
func most(values []float32) int { return slices.Index(values, slices.Max(values)) }
