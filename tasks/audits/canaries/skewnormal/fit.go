package skewnormal

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/tasks"
)

// Fit is a skew-normal distribution fitted to the first half of the references, and its test by the
// second half.
type Fit struct {
	Distribution
	Fitted int `json:"fitted" doc:"number of references in the first half, to which the distribution is fitted"`
	Tested int `json:"tested" doc:"number of references in the second half, which test the fit"`
	// KS is the Kolmogorov-Smirnov statistic of the second half, P the probability of at least this statistic
	// under the fitted distribution.
	KS float64 `json:"ks" doc:"Kolmogorov-Smirnov statistic of the second half"`
	P  float64 `json:"p" doc:"probability of at least this statistic under the fitted distribution"`
	// CalibratedP is the probability of at least this statistic if both halves have one skew-normal
	// distribution, and the first is fitted; nil without calibration.
	CalibratedP *float64 `json:"calibrated_p,omitempty" doc:"probability of at least this statistic if both halves have one skew-normal distribution"`
	// LowestObserved counts the second half at or below the fitted quantile of lowestShare;
	// LowestFitted is its expectation.
	LowestObserved int64   `json:"lowest_observed" doc:"number of references of the second half in the fitted lower tail"`
	LowestFitted   float64 `json:"lowest_fitted" doc:"expected number of references of the second half in the fitted lower tail"`
	// Histogram counts all references.
	Histogram Histogram `json:"histogram" doc:"of the histogram"`
}

const lowestShare = 0.001

// Histogram has bins of equal width, the first starting at From.
type Histogram struct {
	From   float64 `json:"from" doc:"lower edge, in nats"`
	Width  float64 `json:"width" doc:"width of a bin, in nats"`
	Counts []int   `json:"counts" doc:"number of references by bin"`
}

// Significance returns CalibratedP if it is not nil, otherwise P.
func (f *Fit) Significance() float64 {
	if f.CalibratedP != nil {
		return *f.CalibratedP
	}
	return f.P
}

// Supported returns the largest exposure in bits that the references support, 0 if none: with probability 1 -
// doubt, fitted exposures up to it are within half a bit of -log2 F(x), where F is the distribution function
// of all sequences.
//
// The fit is within KS of the second half of the references, which is within the bound of
// Dvoretzky, Kiefer and Wolfowitz (Massart 1990) of F. An exposure can be half a bit too low if the
// sum of both distances is (1 - 2^-0.5) times the fit.
func (f *Fit) Supported(doubt float64) float64 {
	const bits = 0.5
	apart := f.KS + math.Sqrt(math.Log(2/doubt)/(2*float64(f.Tested)))
	return max(0, math.Log2((1-math.Exp2(-bits))/apart))
}

// newFit fits the first half of the costs, at least two, and tests the second.
func newFit(costs []float64) (Fit, error) {
	d, ks, err := fitAndTest(costs, len(costs)/2)
	if err != nil {
		return Fit{}, err
	}
	tested := slices.Sorted(slices.Values(costs[len(costs)/2:]))
	return Fit{
		Distribution: d, Fitted: len(costs) / 2, Tested: len(tested), KS: ks, P: significance(ks, len(tested)),
		LowestObserved: atMost(tested, d.Quantile(lowestShare)), LowestFitted: lowestShare * float64(len(tested)),
		Histogram: newHistogram(costs),
	}, nil
}

// fitAndTest fits the first costs, and returns the Kolmogorov-Smirnov statistic of the remaining ones.
func fitAndTest(costs []float64, fitted int) (Distribution, float64, error) {
	d, err := FitDistribution(costs[:fitted])
	if err != nil {
		return d, 0, err
	}
	return d, kolmogorovSmirnov(slices.Sorted(slices.Values(costs[fitted:])), d.CDF), nil
}

// kolmogorovSmirnov returns the largest difference between the distribution function of ascending data and
// cdf.
func kolmogorovSmirnov(ascending []float64, cdf func(float64) float64) float64 {
	largest, n := 0.0, float64(len(ascending))
	for i, x := range ascending {
		f := cdf(x)
		largest = max(largest, float64(i+1)/n-f, f-float64(i)/n)
	}
	return largest
}

// significance returns the probability of at least this statistic for n data: Kolmogorov's limit, with the
// correction for finite n of Vrbik (2018, Small-sample corrections to Kolmogorov-Smirnov test statistic).
func significance(ks float64, n int) float64 {
	root := math.Sqrt(float64(n))
	x := ks*root + 1/(6*root) + (ks*root-1)/(4*float64(n))
	if x < 0.3 {
		return 1 // to ten digits; the series converges slowly
	}
	sum := 0.0
	for k := 1.0; k <= 20; k++ {
		sum -= 2 * math.Pow(-1, k) * math.Exp(-2*k*k*x*x)
	}
	return max(0, min(1, sum))
}

const bins = 40

func newHistogram(data []float64) Histogram {
	least, most := slices.Min(data), slices.Max(data)
	h := Histogram{least, (most - least) / bins, make([]int, bins)}
	for _, x := range data {
		h.Counts[min(int((x-least)/h.Width), bins-1)]++
	}
	return h
}

// calibrate sets CalibratedP by a parametric bootstrap (Stute, Manteiga and Quindimil 1993), which includes
// the error of the fit: each repetition draws the same number of references from the fit, fits the first half
// and tests the second. The p-value is (1 + repetitions with at least the statistic) / (1 + repetitions).
func (p *Params) calibrate(ctx context.Context, fit *Fit) error {
	if p.Calibration == 0 {
		return nil
	}
	larger := 0
	for k := range p.Calibration {
		if err := ctx.Err(); err != nil {
			return err
		}
		drawn := draws(seeds.Stream(p.Seed, seeds.Calibration, uint64(k)), fit.Distribution, fit.Fitted+fit.Tested)
		_, ks, err := fitAndTest(drawn, fit.Fitted)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("fit %d of the calibration: %w; use more references", k, err))
		}
		if ks >= fit.KS {
			larger++
		}
	}
	fit.CalibratedP = new(float64(1+larger) / float64(1+p.Calibration))
	return nil
}

// draws returns n draws from two normals each, by Azzalini (1985): with delta = shape / sqrt(1 + shape²),
// delta |z| + sqrt(1 - delta²) z' is standard skew-normal.
func draws(rng *rand.Rand, d Distribution, n int) []float64 {
	root := math.Sqrt(1 + float64(d.Shape*d.Shape))
	out := make([]float64, n)
	for i := range out {
		folded, other := math.Abs(rng.NormFloat64()), rng.NormFloat64()
		out[i] = d.Location + float64(d.Scale*((float64(d.Shape*folded)+other)/root))
	}
	return out
}
