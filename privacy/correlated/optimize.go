package correlated

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/optimize"
)

// The search minimizes the product of the squared sensitivity and the largest variance of a
// prefix sum: at equal privacy, the noise on the final model.

// OptimizeBLT finds a BLT strategy with at most the given number of buffers, 1 or more, for a
// participation. The result has fewer buffers if more do not lower the loss.
func OptimizeBLT(p Participation, buffers int) (BLT, error) {
	if err := p.Validate(); err != nil {
		return BLT{}, err
	}
	if buffers < 1 {
		return BLT{}, fmt.Errorf("blt with %d buffers: expected at least 1", buffers)
	}
	x, err := descend(fromBLT(startBLT(p.Rounds, buffers)), func(x, gradient []float64) float64 {
		return lossOfBLT(x, gradient, p)
	})
	if err != nil {
		return BLT{}, fmt.Errorf("blt with %d buffers for %+v: %w", buffers, p, err)
	}
	b := toBLT(x).used()
	round(b.Scales)
	round(b.Decays)
	return b, b.Validate()
}

// used returns the buffers that lower the loss, slowest decay first.
func (b BLT) used() BLT {
	const idle = 1e-8
	var order []int
	for j, scale := range b.Scales {
		if scale >= idle {
			order = append(order, j)
		}
	}
	if order == nil {
		order = []int{0}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(b.Decays[j], b.Decays[i]) })
	var out BLT
	for _, j := range order {
		out.Scales, out.Decays = append(out.Scales, b.Scales[j]), append(out.Decays, b.Decays[j])
	}
	return out
}

// OptimizeBanded finds a banded strategy with a number of bands, from 1 to the rounds.
func OptimizeBanded(p Participation, bands int) (Banded, error) {
	if err := p.Validate(); err != nil {
		return Banded{}, err
	}
	if bands < 1 || bands > p.Rounds {
		return Banded{}, fmt.Errorf("banded with %d bands over %d rounds: expected from 1 to the rounds", bands, p.Rounds)
	}
	x, err := descend(fromBanded(startBanded(bands)), func(x, gradient []float64) float64 {
		return lossOfBanded(x, gradient, p)
	})
	if err != nil {
		return Banded{}, fmt.Errorf("%d bands for %+v: %w", bands, p, err)
	}
	b := toBanded(x)
	round(b.Coefficients)
	return b, b.Validate()
}

// lossOfBLT is the logarithm of the loss at a point of the search, and its gradient.
func lossOfBLT(x, gradient []float64, p Participation) float64 {
	b := toBLT(x)
	variance, sensitivity := b.varianceSlopes(p.Rounds), b.sensitivitySlopes(p)
	for j, decay := range b.Decays {
		gradient[2*j] = math.Ln2 * b.Scales[j] * (variance.byScale[j]/variance.value + sensitivity.byScale[j]/sensitivity.value)
		gradient[2*j+1] = math.Ln2 * decay * (1 - decay) * (variance.byDecay[j]/variance.value + sensitivity.byDecay[j]/sensitivity.value)
	}
	return math.Log(variance.value) + math.Log(sensitivity.value)
}

// lossOfBanded is lossOfBLT for banded strategies. The ratio of a coefficient to the one
// before determines it and all later ones.
func lossOfBanded(x, gradient []float64, p Participation) float64 {
	b := toBanded(x)
	variance, byVariance := b.variance(p.Rounds)
	column := b.column(p.Rounds)
	sensitivity, bySensitivity := squaredSensitivity(column, p), sensitivityGradient(column, p)
	tail := 0.0
	for i := len(x); i > 0; i-- {
		tail += b.Coefficients[i] * (byVariance[i]/variance + bySensitivity[i]/sensitivity)
		gradient[i-1] = math.Ln2 * tail * (1 - fromLogOdds(x[i-1]))
	}
	return math.Log(variance) + math.Log(sensitivity)
}

// The searched variables have no bounds: binary logarithms of scales, and of p/(1-p) for a
// p between 0 and 1.

func fromBLT(b BLT) []float64 {
	x := make([]float64, 2*len(b.Scales))
	for j := range b.Scales {
		x[2*j] = log2(b.Scales[j])
		x[2*j+1] = logOdds(b.Decays[j])
	}
	return x
}

func toBLT(x []float64) BLT {
	b := BLT{Scales: make([]float64, len(x)/2), Decays: make([]float64, len(x)/2)}
	for j := range b.Scales {
		b.Scales[j] = powerOf2(x[2*j])
		b.Decays[j] = fromLogOdds(x[2*j+1])
	}
	return b
}

// fromBanded encodes the ratio of each coefficient to the one before, so that no coefficient
// exceeds its predecessor.
func fromBanded(b Banded) []float64 {
	x := make([]float64, len(b.Coefficients)-1)
	for i := range x {
		x[i] = logOdds(b.Coefficients[i+1] / b.Coefficients[i])
	}
	return x
}

func toBanded(x []float64) Banded {
	b := Banded{Coefficients: make([]float64, len(x)+1)}
	b.Coefficients[0] = 1
	for i, v := range x {
		b.Coefficients[i+1] = b.Coefficients[i] * fromLogOdds(v)
	}
	return b
}

func logOdds(p float64) float64     { return log2(p / (1 - p)) }
func fromLogOdds(x float64) float64 { return 1 / (1 + powerOf2(-x)) }

// log2 and powerOf2 use package math's base-2 functions, because the bits of its
// natural exponential depend on the processor.
func log2(x float64) float64     { return math.Log2(x) }
func powerOf2(x float64) float64 { return math.Exp2(x) }

// descend finds a minimum near a point. It ends if the gradient is close to 0, or if rounding hides
// any further descent. Where the slope bends suddenly, the estimate of the curvature is wrong, and
// the search restarts.
func descend(from []float64, value func(x, gradient []float64) float64) ([]float64, error) {
	if len(from) == 0 {
		return from, nil
	}
	gradient := make([]float64, len(from))
	for range maxSearches {
		found, err := search(from, value)
		if err != nil {
			return nil, err
		}
		from = found
		if value(from, gradient); squaredNorm(gradient) < minSlope*minSlope {
			break
		}
	}
	return from, nil
}

const (
	maxSearches = 20
	minSlope    = 1e-5 // of the logarithm of the loss
)

func search(from []float64, value func(x, gradient []float64) float64) ([]float64, error) {
	scratch := make([]float64, len(from))
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { return value(x, scratch) },
		Grad: func(gradient, x []float64) { value(x, gradient) },
	}, from, &optimize.Settings{
		GradientThreshold: 1e-10,
		MajorIterations:   5000,
		Converger:         &optimize.FunctionConverge{Absolute: 1e-15, Iterations: 30},
	}, &optimize.BFGS{})
	if result == nil || math.IsNaN(result.F) {
		return nil, fmt.Errorf("no minimum is found: %w", err)
	}
	return result.X, nil // a search that rounding ends returns an error with its minimum
}

// round rounds each number to ten significant digits, enough for a record.
func round(x []float64) {
	for i, v := range x {
		x[i], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
	}
}
