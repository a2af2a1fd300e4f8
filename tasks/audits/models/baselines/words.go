package baselines

import (
	"cmp"
	"context"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

// words measures guesses of words: those that audits of the utility count.
func (p *Params) words(ctx context.Context, train, test *datasets.Population) (*Outcome, error) {
	targets := func(sentence []int32) []int32 { return utility.Targets(sentence, p.Pairs) }
	frequent, err := utility.CountOrdinary(ctx, train, targets)
	if err != nil {
		return nil, err
	}
	asked, err := utility.CountOrdinary(ctx, test, targets)
	if err != nil {
		return nil, err
	}
	all := int64(0)
	for _, n := range asked {
		all += n
	}
	if all == 0 {
		return nil, tasks.Permanent(datasets.NothingToPredict(datasets.Test, test.Records() > 0))
	}
	constant := guessing(mostFrequent(frequent), asked, all)
	return &Outcome{Examples: all, Chance: guessingAmong(p.Choices), Constant: &constant}, nil
}

// mostFrequent are the numbers with the highest counts, of equals the lower ones:
// models.TopGuesses, or as many as there are with any.
func mostFrequent(counts []int64) []int {
	var order []int
	for i, n := range counts {
		if n > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	return order[:min(models.TopGuesses, len(order))]
}

// guessing always guesses the same, of what is asked so often.
func guessing(guesses []int, asked []int64, all int64) Utility {
	var first, top int64
	for rank, guess := range guesses {
		if guess >= len(asked) {
			continue
		}
		top += asked[guess]
		if rank == 0 {
			first = asked[guess]
		}
	}
	return Utility{RecallAt1: new(float64(first) / float64(all)), RecallAt5: new(float64(top) / float64(all))}
}

// guessingAmong guesses at random, each of so many with the same probability.
func guessingAmong(choices int) Utility {
	n := float64(choices)
	return Utility{RecallAt1: new(1 / n), RecallAt5: new(min(1, models.TopGuesses/n))}
}
