package audits

import (
	"context"
	"errors"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Pairs says which models of pairs an audit measures.
type Pairs int

// Of models of pairs an audit measures none, or those whose canaries have their secret in
// the target alone, where all that stands before it is one prefix; or also those whose
// canaries have it in both texts, and whose sources differ.
const (
	NoPairs Pairs = iota
	TargetSecrets
	EverySecret
)

// pairBlock is how many pairs are scored together. It shows in no result.
const pairBlock = 4096

// PairCosts are the log-perplexities of the targets of pairs, given their sources, in nats
// (Carlini et al. 2019, section 6.4): -log p summed over all tokens after the separator, the
// true ones before it being fed. The pairs have one prefix and what follows it, which holds
// the separator. A sum that is not finite is a models.DivergedError, permanently.
func PairCosts(ctx context.Context, scorer *models.Scorer, prefix []int32, suffixes [][]int32) ([]float64, error) {
	costs := make([]float64, 0, len(suffixes))
	for block := range slices.Chunk(suffixes, pairBlock) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		pairs := make([][]int32, len(block))
		for i, suffix := range block {
			pairs[i] = slices.Concat([]int32{datasets.Begin}, prefix, suffix)
		}
		losses, err := scorer.Losses(pairs)
		if _, diverged := errors.AsType[*models.DivergedError](err); diverged {
			return nil, tasks.Permanent(err)
		}
		if err != nil {
			return nil, err
		}
		for _, loss := range losses {
			costs = append(costs, loss.Sum)
		}
	}
	return costs, nil
}

// checkPair reports a prefix of pairs after which their secret can't be looked for.
func (g *Group) checkPair(audit string, prefix int, fail Fail) {
	paths := []string{audit + ".prefix", "canaries.format", "canaries.target", "canaries.formats"}
	switch most := g.DefaultPrefix(); {
	case g.Echoes() && prefix > most:
		fail(paths, "is %d; expected at most %d, what stands before the first random symbol of canaries.format: canaries have their secret in both texts, and with another secret the source is another", prefix, most)
	case !g.Echoes() && prefix < g.SourceWords():
		fail(paths, "is %d; expected at least %d, the source and the separator: the target is what is predicted", prefix, g.SourceWords())
	}
}
