package rdp

import (
	"math"
	"sync"
)

// logSum adds positive numbers given by their logarithms.
type logSum struct {
	terms []float64
	peak  float64
}

func newLogSum() *logSum { return &logSum{peak: math.Inf(-1)} }

func (s *logSum) add(term float64) {
	s.terms = append(s.terms, term)
	s.peak = math.Max(s.peak, term)
}

// log returns the logarithm of the sum, -Inf for no terms.
func (s *logSum) log() float64 {
	if math.IsInf(s.peak, 0) {
		return s.peak
	}
	sum := 0.0
	for _, t := range s.terms {
		if t -= s.peak; t > -50 { // smaller terms cannot change a double
			sum += math.Exp(t)
		}
	}
	return s.peak + math.Log(sum)
}

// log1pExp returns log(1 + exp(x)).
func log1pExp(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

// logExpm1 returns log(exp(x) - 1) for x > 0, -Inf for 0.
func logExpm1(x float64) float64 {
	if x > 1 {
		return x + math.Log1p(-math.Exp(-x))
	}
	return math.Log(math.Expm1(x))
}

// logBinomials holds the logarithms of the binomial coefficients of one n.
type logBinomials struct {
	n         int
	factorial []float64 // shared, log k! at index k
}

func newLogBinomials(n int) logBinomials {
	return logBinomials{n: n, factorial: logFactorials(n)}
}

func (b logBinomials) at(k int) float64 {
	return b.factorial[b.n] - b.factorial[k] - b.factorial[b.n-k]
}

// commonFactorials covers every order of DefaultOrders.
var commonFactorials = sync.OnceValue(func() []float64 { return computeLogFactorials(1024) })

func logFactorials(n int) []float64 {
	if common := commonFactorials(); n < len(common) {
		return common
	}
	return computeLogFactorials(n)
}

func computeLogFactorials(n int) []float64 {
	logs := make([]float64, n+1)
	for k := range logs {
		logs[k], _ = math.Lgamma(float64(k) + 1)
	}
	return logs
}
