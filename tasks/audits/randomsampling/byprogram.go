package randomsampling

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/clientwork"
	"coalmine/tasks/datasets"
)

// programmed ranks canaries by what a program says of them.
type programmed struct {
	*Params
	client     clientprograms.Client
	model      clientprograms.Model
	vocabulary *datasets.Vocabulary
	canaries   []datasets.Placement
}

// rankByProgram ranks canaries as Kind does, by scores of a program. References that follow
// another prefix are scored anew, so that there should not be too many.
func rankByProgram(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	s, err := openProgram(ctx, t, p)
	if err != nil {
		return nil, err
	}
	defer s.client.GiveBack()
	ranks := make([]Rank, 0, p.Count)
	for i := range p.Count {
		rank, err := s.rank(ctx, s.canaries[p.First+i].Tokens)
		if err != nil {
			return nil, fmt.Errorf("canary %d: %w", p.First+i, err)
		}
		ranks = append(ranks, rank)
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(p.Count)})
	}
	return ranks, nil
}

func openProgram(ctx context.Context, t *tasks.Task, p *Params) (s *programmed, err error) {
	s = &programmed{Params: p}
	if s.canaries, err = datasets.ReadPlacements(ctx, t, audits.CanariesInput); err != nil {
		return nil, err
	}
	if s.model, err = clientwork.File(t, audits.ModelInput); err != nil {
		return nil, err
	}
	s.client, s.vocabulary, err = clientwork.Borrow(ctx, t, p.Program)
	return s, err
}

// rank ranks the tokens of a canary.
func (s *programmed) rank(ctx context.Context, tokens []int32) (Rank, error) {
	prefix := tokens[:s.Prefix]
	costs, err := s.costs(ctx, prefix, [][]int32{tokens[s.Prefix:]})
	if err != nil {
		return Rank{}, err
	}
	rank, _, err := s.RankSequentially(ctx, s.canaries, s.vocabulary, costs[0], 0, func(ctx context.Context, suffixes [][]int32) ([]float64, error) {
		return s.costs(ctx, prefix, suffixes)
	})
	return rank, err
}

// costs are the log-perplexities of sequences after a prefix, in nats.
func (s *programmed) costs(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
	pairs := make([]clientprograms.Pair, len(suffixes))
	for i, suffix := range suffixes {
		pairs[i] = clientprograms.Pair{Context: prefix, Continuation: suffix}
	}
	answers, err := s.client.LogLikelihoods(ctx, s.model, pairs)
	if err != nil {
		return nil, err
	}
	costs := make([]float64, len(answers))
	for i, a := range answers {
		costs[i] = -a.LogProb
	}
	return costs, nil
}
