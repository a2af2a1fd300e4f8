package randomsampling

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks/datasets"
)

// Scores returns the log-perplexities of sequences in nats, in their order, each after
// one and the same prefix.
type Scores func(ctx context.Context, suffixes [][]int32) ([]float64, error)

// Interval holds the ranks from Low to High.
type Interval struct{ Low, High int64 }

// sequentialBlock is how many references are scored together. It shows in no result.
const sequentialBlock = 4096

// RankSequentially ranks a canary among the references by scores alone, where there is no
// model whose prefix tree could be walked. The rank is that of a task of Kind with the same
// scores: references come in the order in which they are drawn, and a large rank is
// estimated from the same pilots.
//
// cost is the canary's log-perplexity, ordinary the number of ordinary tokens, list all
// canaries of its length. Where a score is known to margin nats, the canary and a
// reference may differ by twice that and yet stand either way round: Interval holds the
// ranks that they then may have.
func (p *Params) RankSequentially(ctx context.Context, list []datasets.Placement, v *datasets.Vocabulary, cost, margin float64, scores Scores) (Rank, Interval, error) {
	draws, err := p.DrawIn(v, list)
	if err != nil {
		return Rank{}, Interval{}, err
	}
	t := tally{cost: cost, margin: 2 * margin}
	var block [][]int32
	for row := range draws {
		block = append(block, slices.Clone(row))
		drawn := t.scored + len(block)
		pilot := !p.Exact && slices.Contains(pilotSizes, drawn) && drawn < p.References
		if len(block) < sequentialBlock && !pilot && drawn < p.References {
			continue
		}
		if err := t.add(ctx, block, scores); err != nil {
			return Rank{}, Interval{}, err
		}
		block = block[:0]
		if pilot && t.hits >= minPilotHits {
			break
		}
	}
	rank, interval := t.rank(p.References)
	return rank, interval, nil
}

// checkRoom checks that as many sequences may follow the prefix as are asked for.
func (p *Params) checkRoom(ordinary, canaries int) error {
	room := p.Sequences(ordinary, p.Prefix)
	if float64(p.References+canaries) <= room {
		return nil
	}
	return fmt.Errorf("%d references and %d canaries, which differ in what follows the prefix; expected at most the %.0f sequences that may follow it: use fewer references, a shorter prefix or longer canaries", p.References, canaries, room)
}

// tally counts the references that a canary is behind.
type tally struct {
	cost, margin float64
	scored       int
	// hits cost at most as much as the canary; low by more than the margin, high too with it.
	hits, low, high int64
}

func (t *tally) add(ctx context.Context, block [][]int32, scores Scores) error {
	costs, err := scores(ctx, block)
	if err != nil {
		return err
	}
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
	t.scored += len(block)
	return nil
}

// rank is counted if all references were scored, else estimated.
func (t *tally) rank(references int) (Rank, Interval) {
	if t.scored == references {
		return Rank{LogPerplexity: t.cost, Rank: 1 + t.hits, Exact: true}, Interval{1 + t.low, 1 + t.high}
	}
	rank, deviation := estimate(t.hits, t.scored, references)
	low, _ := estimate(t.low, t.scored, references)
	high, _ := estimate(t.high, t.scored, references)
	return Rank{LogPerplexity: t.cost, Rank: rank, ExposureError: deviation}, Interval{low, high}
}
