package ranking

import (
	"fmt"
	"math"
)

// Owned returns the average precision of every owner's items under one score: element o is
// that of the items with o, of 0 to owners-1, among their owners; NaN if there are none. An
// item may have several owners, or none. It takes the time of one ranking.
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

// touch counts the owners of some items in tied, and lists those that have any.
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

// Among reports whether one of the relevant classes has one of the k highest scores. Of equal
// scores those of lower classes count as higher.
func Among(scores []float32, k int, relevant []int) bool {
	for _, class := range relevant {
		above := 0
		for other, s := range scores {
			if s > scores[class] || s == scores[class] && other < class {
				above++
			}
		}
		if above < k {
			return true
		}
	}
	return false
}

// AmongByChance returns the probability that, in a random order of classes classes, one of
// the relevant ones is among the first k: k/classes for a single one.
func AmongByChance(k, relevant, classes int) float64 {
	if k >= classes {
		return 1
	}
	none := 1.0
	for i := range k {
		none *= max(0, float64(classes-relevant-i)/float64(classes-i))
	}
	return 1 - none
}
