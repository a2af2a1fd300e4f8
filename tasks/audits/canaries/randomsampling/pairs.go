package randomsampling

import (
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// rankPairs ranks canaries that have their secret in both texts of a pair. With another
// secret the source is another too, so that references share no state to continue from,
// and each is scored whole: all canaries of the task against one pass over them.
func rankPairs(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	list, err := datasets.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return nil, err
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	ranks, err := canaryCosts(ctx, scorer, p, list[p.First:p.First+p.Count])
	if err != nil {
		return nil, err
	}
	draws, err := p.DrawReferences(ctx, t, scorer.Model().Config().Vocabulary-datasets.FirstWord, list)
	if err != nil {
		return nil, err
	}
	prefix, block, scored := list[p.First].Tokens[:p.Prefix], [][]int32(nil), 0
	for row := range draws {
		if block = append(block, slices.Clone(row)); len(block) < sequentialBlock && scored+len(block) < p.References {
			continue
		}
		if err := countBelow(ctx, scorer, prefix, block, ranks); err != nil {
			return nil, err
		}
		scored, block = scored+len(block), block[:0]
		t.Progress(tasks.Progress{Done: int64(scored), Total: int64(p.References)})
	}
	return ranks, nil
}

// canaryCosts are ranks before any reference was looked at.
func canaryCosts(ctx context.Context, scorer *models.Scorer, p *Params, own []datasets.Placement) ([]Rank, error) {
	ranks := make([]Rank, len(own))
	for i, c := range own {
		if !slices.Equal(c.Tokens[:p.Prefix], own[0].Tokens[:p.Prefix]) {
			return nil, tasks.Permanent(fmt.Errorf("canary %d begins unlike canary %d; expected one prefix of %d, before their secret", c.Number, own[0].Number, p.Prefix))
		}
		cost, err := audits.PairCosts(ctx, scorer, nil, [][]int32{c.Tokens})
		if err != nil {
			return nil, fmt.Errorf("canary %d: %w", c.Number, err)
		}
		ranks[i] = Rank{LogPerplexity: cost[0], Rank: 1, Exact: true}
	}
	return ranks, nil
}

// countBelow adds to each rank the references of a block that cost at most as much.
func countBelow(ctx context.Context, scorer *models.Scorer, prefix []int32, block [][]int32, ranks []Rank) error {
	costs, err := audits.PairCosts(ctx, scorer, prefix, block)
	for _, cost := range costs {
		for i := range ranks {
			if cost <= ranks[i].LogPerplexity {
				ranks[i].Rank++
			}
		}
	}
	return err
}
