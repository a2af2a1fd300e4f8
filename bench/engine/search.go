package engine

import (
	"context"
	"slices"

	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/datasets"
)

// A search of this benchmark is for nine digits, and an untrained model makes it expand all
// nodes.
const (
	searchedDigits = 9
	searchedAtOnce = 1000
	searchedNodes  = 1 + 10 + 100 + 20*searchedAtOnce // the first iterations have fewer nodes to expand
)

// measureSearch compares a search that expands many nodes at once with one that expands one at a
// time, as Carlini et al. 2019, section 8.1, do on a GPU.
func measureSearch(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(byteModel.config)
	if err != nil {
		return err
	}
	digits := make([]int32, 10)
	for i := range digits {
		digits[i] = int32(datasets.FirstWord) + '0' + int32(i)
	}
	tree, err := search.NewTree(scorer, digits[:1], slices.Repeat([][]int32{digits}, searchedDigits))
	if err != nil {
		return err
	}
	expand := func(batch int) func() error {
		return func() error {
			settings := search.Settings{Batch: batch, Results: 1, Prove: 1, Memory: 256 << 20}
			_, err := search.Likeliest(ctx, tree, settings, searchedNodes, func(int) {})
			return err
		}
	}
	j := job{searchedNodes * scorer.Model().ScoringFLOPs(), searchedNodes, expand(searchedAtOnce)}
	return b.rates(ctx, r, j, expand(1))
}
