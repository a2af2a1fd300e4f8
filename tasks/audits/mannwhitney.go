package audits

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coalmine/models/ranking"
)

// mostExact bounds the additions of an exact p-value, to some ten milliseconds: up to 40
// values divided anyhow, 120 of which ten are in one sample, 200 of which one is.
const mostExact = 20_000_000

// MannWhitney is the two-sided p-value of the test of Mann and Whitney (1947, On a test of
// whether one of two random variables is stochastically larger than the other): how
// probable it is, were all ways to divide the values into two samples of these sizes equally
// likely, that the sum of the ranks in one lies as far from its mean as it does, or farther.
// Equal values share their mean rank. It is exact, but for rounding, unless the samples are
// large (mostExact); then it is the normal approximation with the variance that ties leave,
// without a correction for continuity. It is in [0, 1], and 1 where a sample is empty or all
// values are equal. A value that is NaN is an error.
func MannWhitney(x, y []float64) (p float64, err error) {
	if err := cmp.Or(ranking.Numbers("value", x), ranking.Numbers("value", y)); err != nil {
		return 0, fmt.Errorf("test of Mann and Whitney: %w", err)
	}
	if len(x) == 0 || len(y) == 0 {
		return 1, nil
	}
	if len(x) > len(y) {
		x, y = y, x
	}
	ranks, sum, ties := doubledRanks(x, y)
	n, m := float64(len(x)), float64(len(y))
	all := n + m
	apart := math.Abs(float64(sum) - n*(all+1)) // of doubled ranks
	if all*all*(all+1)*n <= mostExact {
		return dividedAsFar(ranks, len(x), apart), nil
	}
	variance := n * m / 12 * (all + 1 - ties/(all*(all-1)))
	if variance == 0 {
		return 1, nil
	}
	return math.Erfc(apart / 2 / math.Sqrt(2*variance)), nil
}

// doubledRanks are the ranks in the pooled samples, equal values sharing their mean, times
// two, which makes them whole numbers; their sum over x; and the sum of t³ - t over the
// groups of t equal values.
func doubledRanks(x, y []float64) (ranks []int, sum int, ties float64) {
	pooled := slices.Sorted(slices.Values(slices.Concat(x, y)))
	ranks = make([]int, len(pooled))
	at := map[float64]int{}
	for i := 0; i < len(pooled); {
		j := i
		for j < len(pooled) && pooled[j] == pooled[i] {
			j++
		}
		at[pooled[i]] = i + j + 1
		for k := i; k < j; k++ {
			ranks[k] = i + j + 1
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	for _, v := range x {
		sum += at[v]
	}
	return ranks, sum, ties
}

// dividedAsFar is the share of the choices of n ranks whose sum lies at least so far from its
// mean. It counts the choices by number and sum.
func dividedAsFar(ranks []int, n int, apart float64) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // by how many are chosen, and their sum
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for sum := total; sum >= r; sum-- {
				ways[k][sum] += ways[k-1][sum-r]
			}
		}
	}
	mean, far, all := float64(n*(len(ranks)+1)), 0.0, 0.0
	for sum, count := range ways[n] {
		all += count
		if math.Abs(float64(sum)-mean) >= apart {
			far += count
		}
	}
	return far / all
}
