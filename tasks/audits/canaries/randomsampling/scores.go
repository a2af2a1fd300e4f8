package randomsampling

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

// Interval has the lowest and the highest possible rank, inclusive.
type Interval struct{ Low, High int64 }

// sequentialBlock is the number of references that are scored together. It does not affect results.
const sequentialBlock = 4096

// Sequential ranks canaries of one length by scores, without a prefix tree. Canaries with the same prefix
// share their references, each of which is scored once.
type Sequential struct {
	*Params
	Canaries   []population.Placement
	Vocabulary *text.Vocabulary
	// Score returns the log-perplexities of sequences after a prefix, in nats and in their order.
	Score func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error)

	draw  func() (iter.Seq[[]int32], error) // nil: by DrawIn
	known map[string][]float64              // of the first references, by prefix
}

// Rank ranks a canary of log-perplexity cost as a task of Kind does with the same scores and pilots. Scores
// are exact to margin nats: the order of a canary and a reference that differ by less than twice the margin
// is uncertain, and Interval has the possible ranks.
func (s *Sequential) Rank(ctx context.Context, prefix []int32, cost, margin float64) (Rank, Interval, error) {
	if s.draw == nil {
		s.draw = func() (iter.Seq[[]int32], error) { return s.DrawIn(s.Vocabulary, s.Canaries) }
	}
	draws, err := s.draw()
	if err != nil {
		return Rank{}, Interval{}, err
	}
	t := newTally(cost, margin)
	var block [][]int32
	for row := range draws {
		block = append(block, slices.Clone(row))
		drawn := t.scored + len(block)
		pilot := !s.Exact && slices.Contains(pilotSizes, drawn) && drawn < s.References
		if len(block) < sequentialBlock && !pilot && drawn < s.References {
			continue
		}
		costs, err := s.shared(ctx, prefix, t.scored, block)
		if err != nil {
			return Rank{}, Interval{}, err
		}
		t.add(costs)
		block = block[:0]
		if pilot && t.hits >= minPilotHits {
			break
		}
	}
	rank, interval := t.rank(s.References)
	return rank, interval, nil
}

// FirstCosts returns the log-perplexities of the first n references after a prefix.
func (s *Sequential) FirstCosts(ctx context.Context, prefix []int32, n int) ([]float64, error) {
	rows, err := s.FirstSequences(n)
	if err != nil {
		return nil, err
	}
	return s.shared(ctx, prefix, 0, rows)
}

// FirstSequences returns the first n references, without the prefix.
func (s *Sequential) FirstSequences(n int) ([][]int32, error) {
	draws, err := s.drawFirst(n)
	if err != nil {
		return nil, err
	}
	return Sequences(draws), nil
}

// Sequences collects drawn sequences.
func Sequences(draws iter.Seq[[]int32]) (rows [][]int32) {
	for row := range draws {
		rows = append(rows, slices.Clone(row))
	}
	return rows
}

// CheckRoom checks that n references can be drawn.
func (s *Sequential) CheckRoom(n int) error {
	_, err := s.drawFirst(n)
	return err
}

func (s *Sequential) drawFirst(n int) (iter.Seq[[]int32], error) {
	params := *s.Params
	params.References = n
	return params.DrawIn(s.Vocabulary, s.Canaries)
}

// shared returns the log-perplexities of references starting at number from. It scores only those that no
// canary with this prefix has needed yet.
func (s *Sequential) shared(ctx context.Context, prefix []int32, from int, rows [][]int32) ([]float64, error) {
	name, end := fmt.Sprint(prefix), from+len(rows)
	if known := len(s.known[name]); end > known {
		more, err := s.Score(ctx, prefix, rows[known-from:])
		if err != nil {
			return nil, err
		}
		if s.known == nil {
			s.known = map[string][]float64{}
		}
		s.known[name] = append(s.known[name], more...)
	}
	return s.known[name][from:end], nil
}

// tally counts the references at or below a canary.
type tally struct {
	cost, margin float64
	scored       int
	// hits cost at most as much as the canary; low and high count with the margin against and for it.
	hits, low, high int64
}

// newTally returns a tally for scores exact to a margin, so that differences are exact to twice that.
func newTally(cost, margin float64) *tally { return &tally{cost: cost, margin: 2 * margin} }

func (t *tally) add(costs []float64) {
	for _, cost := range costs {
		if cost <= t.cost {
			t.hits++
		}
		if cost <= t.cost-t.margin {
			t.low++
		}
		if cost <= t.cost+t.margin {
			t.high++
		}
	}
	t.scored += len(costs)
}

// rank returns the counted rank if all references were scored, otherwise an estimate.
func (t *tally) rank(references int) (Rank, Interval) {
	if t.scored == references {
		return Rank{LogPerplexity: t.cost, Rank: 1 + t.hits, Exact: true}, Interval{1 + t.low, 1 + t.high}
	}
	low, _ := estimate(t.low, t.scored, references)
	high, _ := estimate(t.high, t.scored, references)
	return estimated(t.cost, t.hits, t.scored, references), Interval{low, high}
}

func (s *Sequential) rankAll(ctx context.Context, t *tasks.Task) (ranks []Rank, err error) {
	if s.Canaries, err = population.ReadPlacements(ctx, t, audits.CanariesInput); err != nil {
		return nil, err
	}
	ranks = make([]Rank, s.Count)
	for i := range ranks {
		tokens := s.Canaries[s.First+i].Tokens
		prefix := tokens[:s.Prefix]
		cost, err := s.Score(ctx, prefix, [][]int32{tokens[s.Prefix:]})
		if err == nil {
			ranks[i], _, err = s.Rank(ctx, prefix, cost[0], 0)
		}
		if err != nil {
			return nil, fmt.Errorf("canary %d: %w", s.First+i, err)
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(s.Count)})
	}
	return ranks, nil
}

// scoredReferences is the default number of references if another program scores each as a text.
const scoredReferences = 1000

type ScoredParams struct {
	Params
	Model external.ModelParams `json:"model"`
}

// Scored ranks canaries as Kind does under an external model, which scores every reference as a text.
// Inputs: "model": external/train; "canaries"; "parts": datasets/encode.
var Scored = tasks.Kind{Name: "audits/random-sampling-scores", Version: 1, Class: tasks.Compute, Command: true, Run: audits.Finds(RanksBlob, rankScored)}

func rankScored(ctx context.Context, t *tasks.Task, p *ScoredParams) ([]Rank, error) {
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, err
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	s := &Sequential{Params: &p.Params, Vocabulary: vocabulary, Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
		return model.Costs(ctx, vocabulary, prefix, suffixes)
	}}
	return s.rankAll(ctx, t)
}

func rankByProgram(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	client, vocabulary, err := external.BorrowClient(ctx, t, p.Program)
	if err != nil {
		return nil, err
	}
	defer client.GiveBack()
	s := &Sequential{Params: p, Vocabulary: vocabulary, Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
		return external.ClientCosts(ctx, t, client, audits.ModelInput, prefix, suffixes)
	}}
	return s.rankAll(ctx, t)
}

// rankPairs ranks canaries that have their secret in both texts of a pair, among all references. These have
// different sources and share no state, so each is scored whole, once for all canaries of the task.
func rankPairs(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	all := *p
	all.Exact = true
	s := &Sequential{Params: &all, Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
		return audits.PairCosts(ctx, scorer, prefix, suffixes)
	}}
	s.draw = func() (iter.Seq[[]int32], error) {
		return p.DrawReferences(ctx, t, scorer.Model().Config().Vocabulary-text.FirstWord, s.Canaries)
	}
	return s.rankAll(ctx, t)
}
