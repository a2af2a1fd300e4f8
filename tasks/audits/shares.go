package audits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"

	"coalmine/models/ranking"
)

// Confidence is the confidence of the intervals of shares.
const Confidence = 0.95

// Share is the number and share of observations with a property.
type Share struct {
	Count int `json:"count" doc:"numerator"`
	Of    int `json:"of" doc:"denominator"`
	// Share is Count / Of, in [0, 1]; 0 if Of is 0.
	Share float64 `json:"share" doc:"value, from 0 to 1"`
	// Low and High are the interval of Clopper and Pearson (1934): if each observation independently has the
	// property with one probability, they contain it in at least Confidence of the cases.
	Low  float64 `json:"low" doc:"lower end of the 95% interval by Clopper and Pearson"`
	High float64 `json:"high" doc:"upper end of the 95% interval by Clopper and Pearson"`
}

// Percent returns the form "2.41% (2.19 to 2.62)".
func (s Share) Percent() string {
	return fmt.Sprintf("%.2f%% (%.2f to %.2f)", 100*s.Share, 100*s.Low, 100*s.High)
}

func (s *Share) Interval() *Interval {
	if s == nil {
		return nil
	}
	return &Interval{s.Share, s.Low, s.High}
}

// Percent returns the form "76.0 (70.0 to 80.0)".
func (i Interval) Percent() string { return fmt.Sprintf("%.1f (%s)", 100*i.Value, i.Ends()) }

// Ends returns the form "70.0 to 80.0".
func (i Interval) Ends() string { return fmt.Sprintf("%.1f to %.1f", 100*i.Low, 100*i.High) }

// NewShare returns the share. If total is 0, the interval is [0, 1].
func NewShare(count, total int) Share {
	s := Share{Count: count, Of: total, High: 1}
	if total > 0 {
		s.Share = float64(count) / float64(total)
		s.Low, s.High = ClopperPearson(float64(count), float64(total), intervalTail)
	}
	return s
}

// intervalTail is the probability left out on each side.
const intervalTail = (1 - Confidence) / 2

// ClopperPearson returns the interval of k among n, which may be fractions, with a tail left out on each
// side.
func ClopperPearson(k, n, tail float64) (low, high float64) {
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(k, n-k+1, tail)
	}
	if k < n {
		high = mathext.InvRegIncBeta(k+1, n-k, 1-tail)
	}
	return low, high
}

// MinCertain returns the smallest number among n whose lower bound is above a share, by the interval of Clopper
// and Pearson with the tail, or n + 1.
func MinCertain(n int, share, tail float64) int {
	return sort.Search(n+1, func(k int) bool {
		low, _ := ClopperPearson(float64(k), float64(n), tail)
		return low > share
	})
}

// AtLeast returns the probability that Count or more have the property, each with probability p: the exact
// test of a share of at most p.
func (s Share) AtLeast(p float64) float64 {
	if s.Count == 0 {
		return 1
	}
	return BinomialTail(s.Count-1, s.Of, p)
}

// Differ returns the p-value of Fisher's exact test of two shares, twice the smaller tail, at most 1. It
// assumes independent observations.
func Differ(a, b Share) float64 {
	if a.Of == 0 || b.Of == 0 {
		return 1
	}
	all := a.Count + b.Count
	// The tail is on the side of the smaller share.
	if float64(a.Count)*float64(b.Of) > float64(b.Count)*float64(a.Of) {
		a, b = b, a
	}
	return min(1, 2*hypergeometricTail(a.Count, a.Of, b.Of, all))
}

// hypergeometricTail returns the probability that at most k of the drawn ones are among n of n + m.
func hypergeometricTail(k, n, m, drawn int) float64 {
	term := math.Exp(logChoose(n, k) + logChoose(m, drawn-k) - logChoose(n+m, drawn))
	sum := 0.0
	for ; k >= 0 && drawn-k <= m && term > sum*1e-17; k-- {
		sum += term
		term *= float64(k) / float64(n-k+1) * (float64(m-drawn+k) / float64(drawn-k+1))
	}
	return sum
}

func logChoose(n, k int) float64 {
	return -mathext.Lbeta(float64(n-k+1), float64(k+1)) - math.Log1p(float64(n))
}

// Ratio is a share of observations in independent groups, such as words in sentences.
type Ratio struct {
	groups      float64
	count, size float64
	// Sums over groups of the products of their counts and sizes.
	countCount, countSize, sizeSize float64
}

// Add counts a group.
func (r *Ratio) Add(count, size int) {
	c, s := float64(count), float64(size)
	r.groups++
	r.count += c
	r.size += s
	r.countCount += float64(c * c)
	r.countSize += float64(c * s)
	r.sizeSize += float64(s * s)
}

// Share returns the share with the interval of Korn and Graubard (1998): that of Clopper and Pearson for the
// number of independent observations with the ratio's variance, corrected for few groups. If the variance is
// 0, that number is the number of groups.
func (r *Ratio) Share() Share { return r.share(min(r.groups, r.size), r.size) }

// ShareOfCanaries is Share for observations that hardly depend on each other, such as the canaries of a
// training. They count at most as independent, as in the standard of the NCHS for a variance of 0 (Parker et
// al. 2017). The correction for few groups stays, down to the number of groups (ours). So groups that differ
// more never have a narrower interval.
func (r *Ratio) ShareOfCanaries() Share {
	if r.groups < 2 || r.size < 2 {
		return r.Share()
	}
	most := max(r.groups, r.size*r.fewGroups())
	return r.share(most, most)
}

// share returns the share with its interval. withoutVariance is the number of independent observations if the
// groups do not differ; otherwise it is computed, and limited by most.
func (r *Ratio) share(withoutVariance, most float64) Share {
	s := NewShare(int(r.count), int(r.size))
	if n := r.effective(withoutVariance, most); n > 0 {
		s.Low, s.High = ClopperPearson(s.Share*n, n, intervalTail)
	}
	return s
}

// fewGroups returns the squared ratio of Student's t for the observations and for the groups.
func (r *Ratio) fewGroups() float64 {
	fewer := StudentT(int(r.size)-1) / StudentT(int(r.groups)-1)
	return fewer * fewer
}

// effective returns the equivalent number of independent observations.
func (r *Ratio) effective(withoutVariance, most float64) float64 {
	if r.groups < 2 || r.size == 0 {
		return min(r.groups, r.size)
	}
	p := r.count / r.size
	squares := r.countCount - float64(2*p*r.countSize) + float64(float64(p*p)*r.sizeSize)
	variance := squares * r.groups / (r.groups - 1) / float64(r.size*r.size)
	if squares <= equal*r.countCount {
		return withoutVariance
	}
	return math.Min(p*(1-p)/variance*r.fewGroups(), most)
}

// equal is the relative rounding error of squares whose groups have equal shares.
const equal = 1e-12

// maxExact bounds the additions of an exact p-value to about ten milliseconds: 40 values in any division, or
// 200 with one in a sample.
const maxExact = 20_000_000

// MannWhitney returns the two-sided p-value of the test of Mann and Whitney (1947, On a test of whether one
// of two random variables is stochastically larger than the other): the probability, over all equally likely
// divisions of the values, that the sum of ranks is at least as far from its mean. Equal values share their
// mean rank. It is exact up to maxExact; beyond it is the normal approximation with the variance for ties,
// without a continuity correction. It is 1 if a sample is empty or all values are equal. NaN is an error.
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
	if all*all*(all+1)*n <= maxExact {
		return dividedAsFar(ranks, len(x), apart), nil
	}
	variance := n * m / 12 * (all + 1 - ties/(all*(all-1)))
	if variance == 0 {
		return 1, nil
	}
	return math.Erfc(apart / 2 / math.Sqrt(2*variance)), nil
}

// doubledRanks returns twice the ranks in the pooled samples, whole numbers also for ties; their sum over x;
// and the sum of t³ - t over groups of t equal values.
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

// dividedAsFar returns the share of the choices of n ranks whose sum is at least apart from its mean, counted
// by number and sum.
func dividedAsFar(ranks []int, n int, apart float64) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // by number of chosen ranks, and their sum
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
