package datasets

import (
	"context"
	"fmt"

	"coalmine/tasks"
)

// SelectExamples rewrites the population of the inputs PopulationInput and ShardsInput into new
// shards, with only the examples that keep selects. Users left with fewer than atLeast examples, at
// least 1, are dropped; the remaining users are renumbered in order.
func SelectExamples(ctx context.Context, t *tasks.Task, atLeast int, keep func(PopulationExample) (bool, error)) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	w, err := newRewriter(ctx, t, population)
	if err != nil {
		return err
	}
	w.atLeast = max(1, atLeast)
	err = w.rewrite(ctx, population, func(x PopulationExample) ([]int32, error) {
		if kept, err := keep(x); !kept {
			return nil, err
		}
		return x.Words, nil
	})
	if err != nil {
		return err
	}
	return w.Close(ctx)
}

// SelectUsers writes the users of the population of PopulationInput that keep selects, renumbered
// in order. Their examples stay in their shards.
func SelectUsers(ctx context.Context, t *tasks.Task, keep func(user int) bool) error {
	population, err := OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	var extents []Extent
	var overlay Overlay
	for user, extent := range population.index.Extents {
		if !keep(user) {
			continue
		}
		for _, r := range population.Replacements().of(user) {
			r.User = len(extents)
			overlay = append(overlay, r)
		}
		extents = append(extents, extent)
	}
	if len(extents) == 0 {
		return tasks.Permanent(fmt.Errorf("none of the %d users is selected, and nothing is left to train on", population.Users()))
	}
	groups, err := ReadGroups(ctx, t, PopulationInput, population)
	if err != nil {
		return err
	}
	if err := putGroups(ctx, t, userGroups(groups, population.index, keep)); err != nil {
		return err
	}
	index := population.index.WithExtents(extents)
	return WritePopulation(ctx, t, index, population.placements(), overlay, population.Records()-index.Counts().Examples)
}
