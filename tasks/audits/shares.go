package audits

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Confidence of the intervals of shares.
const Confidence = 0.95

// Share is how many of a number of things have a property.
type Share struct {
	Count int `json:"count"`
	Of    int `json:"of"`
	// Share is Count / Of, in [0, 1]; 0 of none.
	Share float64 `json:"share"`
	// Low and High are the interval of Clopper and Pearson (1934): where each thing has the
	// property independently with one probability, they contain that in at least Confidence
	// of the cases.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Percent is the share and its interval for people: "2.41% (2.19 to 2.62)".
func (s Share) Percent() string {
	return fmt.Sprintf("%.2f%% (%.2f to %.2f)", 100*s.Share, 100*s.Low, 100*s.High)
}

// Bounded is the share and its interval; nil for nil.
func (s *Share) Bounded() *Bounded {
	if s == nil {
		return nil
	}
	return &Bounded{s.Share, s.Low, s.High}
}

// Percent is the number and its interval for people: "76.0 (70.0 to 80.0)".
func (b Bounded) Percent() string { return fmt.Sprintf("%.1f (%s)", 100*b.Value, b.Ends()) }

// Ends are those of the interval: "70.0 to 80.0".
func (b Bounded) Ends() string { return fmt.Sprintf("%.1f to %.1f", 100*b.Low, 100*b.High) }

// NewShare is the share of count among of; of none, nothing is known.
func NewShare(count, of int) Share {
	s := Share{Count: count, Of: of, High: 1}
	if of > 0 {
		s.Share = float64(count) / float64(of)
		s.Low, s.High = ClopperPearson(float64(count), float64(of), intervalTail)
	}
	return s
}

// intervalTail is what an interval leaves out on either side.
const intervalTail = (1 - Confidence) / 2

// ClopperPearson is the interval of k among n, which need not be whole numbers, that leaves out
// a tail on either side.
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

// AtLeast is the probability that as many as Count or more have the property where each
// has it with probability p: the exact test of a share of at most p.
func (s Share) AtLeast(p float64) float64 {
	if s.Count == 0 {
		return 1
	}
	return MoreThan(s.Count-1, s.Of, p)
}

// Differ is the probability of shares that are as far apart as these or farther, were the two
// probabilities equal: Fisher's exact test, twice the smaller tail, at most 1. It takes the
// things that were counted for independent.
func Differ(a, b Share) float64 {
	if a.Of == 0 || b.Of == 0 {
		return 1
	}
	all := a.Count + b.Count
	// The tail is that of the share which is the smaller.
	if float64(a.Count)*float64(b.Of) > float64(b.Count)*float64(a.Of) {
		a, b = b, a
	}
	return min(1, 2*hypergeometricTail(a.Count, a.Of, b.Of, all))
}

// hypergeometricTail is the probability that at most k of so many drawn are among the first n
// things, the others being m.
func hypergeometricTail(k, n, m, drawn int) float64 {
	term := math.Exp(logChoose(n, k) + logChoose(m, drawn-k) - logChoose(n+m, drawn))
	sum := 0.0
	for ; k >= 0 && drawn-k <= m && term > sum*1e-17; k-- {
		sum += term
		term *= float64(k) / float64(n-k+1) * (float64(m-drawn+k) / float64(drawn-k+1))
	}
	return sum
}

// logChoose is the natural logarithm of the number of ways to choose k of n things.
func logChoose(n, k int) float64 {
	return -mathext.Lbeta(float64(n-k+1), float64(k+1)) - math.Log1p(float64(n))
}

// Ratio is a share among things that come in groups, such as words in sentences. The
// groups are independent, what is in one is not.
type Ratio struct {
	groups      float64
	count, size float64
	// Sums over the groups of the products of their counts and sizes.
	countCount, countSize, sizeSize float64
}

// Add takes in a group of so many things, of which count have the property.
func (r *Ratio) Add(count, size int) {
	c, s := float64(count), float64(size)
	r.groups++
	r.count += c
	r.size += s
	r.countCount += float64(c * c)
	r.countSize += float64(c * s)
	r.sizeSize += float64(s * s)
}

// Share is that of all things, with the interval of Korn and Graubard (1998): that of
// Clopper and Pearson for as many independent things as would give the variance of the
// ratio, fewer for what few groups tell of that variance. Where it is 0 they are as many as there
// are groups.
func (r *Ratio) Share() Share {
	s := NewShare(int(r.count), int(r.size))
	if n := r.effective(); n > 0 {
		s.Low, s.High = ClopperPearson(s.Share*n, n, intervalTail)
	}
	return s
}

// effective is the number of independent things that are worth as much as those of all
// groups.
func (r *Ratio) effective() float64 {
	if r.groups < 2 || r.size == 0 {
		return min(r.groups, r.size)
	}
	p := r.count / r.size
	squares := r.countCount - float64(2*p*r.countSize) + float64(float64(p*p)*r.sizeSize)
	variance := squares * r.groups / (r.groups - 1) / float64(r.size*r.size)
	if !(variance > 0) {
		return min(r.groups, r.size)
	}
	// Student's t of the groups in place of that of things.
	fewer := studentT(int(r.size)-1) / studentT(int(r.groups)-1)
	return math.Min(p*(1-p)/variance*float64(fewer*fewer), r.size)
}
