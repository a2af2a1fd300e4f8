package ranking

import (
	"fmt"
	"math"
	"slices"
)

// Owned returns the average precision of every owner's items under one score: element o, 0 to
// owners-1, is the average precision of the items owned by o; NaN without items. An item may have
// several owners, or no owner. Owned takes the time of one ranking.
func Owned(scores []float32, of [][]int, owners int) ([]float64, error) {
	ranks, err := rank(scores)
	if err != nil {
		return nil, err
	}
	if len(of) != len(scores) {
		return nil, fmt.Errorf("%d scores for %d items; expected one each", len(scores), len(of))
	}
	sums, found := make([]float64, owners), make([]int, owners)
	tied := make([]int, owners)
	seen := 0
	for _, items := range ranks {
		seen += len(items)
		touched := touch(items, of, tied)
		for _, o := range touched {
			found[o] += tied[o]
			sums[o] += float64(float64(tied[o]) * float64(found[o]) / float64(seen))
			tied[o] = 0
		}
	}
	for o := range sums {
		if found[o] == 0 {
			sums[o] = math.NaN()
			continue
		}
		sums[o] /= float64(found[o])
	}
	return sums, nil
}

// touch counts items per owner in tied, and lists the owners with at least one.
func touch(items []int, of [][]int, tied []int) (touched []int) {
	for _, i := range items {
		for _, o := range of[i] {
			if tied[o] == 0 {
				touched = append(touched, o)
			}
			tied[o]++
		}
	}
	return touched
}

// InTopK reports whether a relevant class has one of the k highest scores. In a tie, lower classes
// rank higher.
func InTopK(scores []float32, k int, relevant []int) bool {
	return slices.ContainsFunc(relevant, func(class int) bool { return Place(scores, class) < k })
}

// Place is the number of scores before that of an index: the higher ones, and of equal ones those of lower indices.
func Place[F float32 | float64](scores []F, of int) (before int) {
	for other, s := range scores {
		if s > scores[of] || s == scores[of] && other < of {
			before++
		}
	}
	return before
}

// InTopKByChance returns the probability that a random order of the classes has a relevant class
// among the first k: k/classes for a single relevant class.
func InTopKByChance(k, relevant, classes int) float64 {
	if k >= classes {
		return 1
	}
	miss := 1.0
	for i := range k {
		miss *= max(0, float64(classes-relevant-i)/float64(classes-i))
	}
	return 1 - miss
}
