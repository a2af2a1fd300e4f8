package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"text/tabwriter"

	"coalmine/internal/lists"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// mechanism is a mechanism of known privacy that an audit sees.
type mechanism struct {
	name string
	// scores draws the score of each canary, given the coins that include it.
	scores func(rng *rand.Rand, included []bool) []float64
	// The mechanism is (epsilon, delta)-differentially private, and no more.
	epsilon, delta float64
	curve          empirical.Curve
	// mu is the distance of normal scores; normal reports that scores are normal.
	mu     float64
	normal bool
	// coupled reports that the scores depend on each other given the coins.
	coupled bool
}

const (
	auditDelta = 1e-5
	auditLevel = 1 - audits.Confidence
)

func mechanisms() ([]mechanism, error) {
	var list []mechanism
	for _, mu := range []float64{0, 0.5, 1.666} {
		epsilon, err := empirical.Epsilon(empirical.Normal{Deviation: 1}, empirical.Normal{Mean: mu, Deviation: 1}, auditDelta)
		if err != nil {
			return nil, err
		}
		list = append(list, mechanism{
			name: fmt.Sprintf("normal, %g apart", mu), scores: normalScores(mu),
			epsilon: epsilon, delta: auditDelta, curve: empirical.GaussianCurve(mu), mu: mu, normal: true,
		})
	}
	return append(list, randomizedResponse(1), together(0.2)), nil
}

func normalScores(mu float64) func(*rand.Rand, []bool) []float64 {
	return func(rng *rand.Rand, included []bool) []float64 {
		return lists.Map(included, func(in bool) float64 { return float64(mu*indicator(in)) + rng.NormFloat64() })
	}
}

// randomizedResponse reveals each coin with probability e^epsilon / (1 + e^epsilon), and otherwise its
// opposite.
func randomizedResponse(epsilon float64) mechanism {
	odds := math.Exp(epsilon)
	return mechanism{
		name: fmt.Sprintf("randomized response of epsilon %g", epsilon), epsilon: epsilon,
		curve: func(power float64) float64 { return max(power/odds, 1-float64(odds*(1-power))) },
		scores: func(rng *rand.Rand, included []bool) []float64 {
			return lists.Map(included, func(in bool) float64 { return indicator(in == (rng.Float64() < odds/(1+odds))) })
		},
	}
}

// together reveals all coins with probability delta, and otherwise nothing.
func together(delta float64) mechanism {
	return mechanism{
		name: fmt.Sprintf("all coins with probability %g", delta), delta: delta, coupled: true,
		curve: func(power float64) float64 { return max(0, power-delta) },
		scores: func(rng *rand.Rand, included []bool) []float64 {
			told := rng.Float64() < delta
			return lists.Map(included, func(in bool) float64 {
				if told {
					return indicator(in)
				}
				return rng.Float64()
			})
		},
	}
}

// auditOf is an audit of a mechanism. It reports whether a bound with 95% confidence is at most the truth.
type auditOf func(rng *rand.Rand) (held bool, err error)

// privacyBound is a lower bound on a mechanism's privacy.
type privacyBound struct {
	name string
	// theorem reports whether a theorem proves the bound for the mechanism.
	theorem func(*mechanism) bool
	// of returns an audit of the mechanism; nil if the bound is not for it.
	of func(*mechanism) auditOf
}

var privacyBounds = []privacyBound{
	{"Steinke et al.", always, oneRun(byEpsilon, 375)},
	{"trade-off curve", always, oneRun(func(m *mechanism) refuted {
		return func(o empirical.Outcome, level float64) bool { return empirical.Refutes(o, m.curve, level) }
	}, 375)},
	{"curve, independent canaries", uncoupled, oneRun(byIndependent, 375)},
	{"many runs", always, manyRuns(
		func(m *mechanism, r empirical.Rates) float64 { return r.Epsilon(m.delta, audits.Confidence) },
		func(m *mechanism) float64 { return m.epsilon })},
	{"many runs, curve", always, ofNormal(manyRuns(
		func(_ *mechanism, r empirical.Rates) float64 { return r.Shift(audits.Confidence) },
		func(m *mechanism) float64 { return m.mu }))},
	{"estimate of vectors", never, ofNormal(estimated(func(rng *rand.Rand, m *mechanism) (epsilon, standardError float64, err error) {
		included := coins(rng, 1000)
		e, err := empirical.EstimateGaussian(included, m.scores(rng, included), m.delta)
		return e.Epsilon, e.StandardError, err
	}))},
	{"one-shot estimate", never, ofNormal(estimated(func(rng *rand.Rand, m *mechanism) (epsilon, standardError float64, err error) {
		e, err := empirical.FinalIterate(cosines(rng, m.mu), oneShotDimension, m.delta)
		return e.Epsilon, e.StandardError, err
	}))},
	{"Steinke et al., three halvings", always, oneRun(byEpsilon, halvings...)},
	{"independent canaries, three halvings", uncoupled, oneRun(byIndependent, halvings...)},
}

// halvings are the numbers of guesses of each kind with guesses.halvings: 3.
var halvings = []int{375, 188, 94, 47}

func always(*mechanism) bool { return true }
func never(*mechanism) bool  { return false }

func uncoupled(m *mechanism) bool { return !m.coupled }

func byEpsilon(m *mechanism) refuted {
	return func(o empirical.Outcome, level float64) bool { return empirical.PValue(o, m.epsilon, m.delta) <= level }
}

func byIndependent(m *mechanism) refuted {
	p := empirical.IndependentPValues(m.curve)
	return func(o empirical.Outcome, level float64) bool { return p(o) <= level }
}

// ofNormal restricts a bound to normal scores.
func ofNormal(of func(*mechanism) auditOf) func(*mechanism) auditOf {
	return func(m *mechanism) auditOf {
		if !m.normal {
			return nil
		}
		return of(m)
	}
}

func coins(rng *rand.Rand, n int) []bool {
	return lists.Make(n, func(int) bool { return rng.IntN(2) == 1 })
}

// refuted reports whether guesses refute the truth at a level of significance.
type refuted func(o empirical.Outcome, level float64) bool

// oneRun audits by 1,000 coins. For each k of guesses it guesses k coins to be in and k to be out; 375 is the
// default for vectors.
func oneRun(of func(*mechanism) refuted, guesses ...int) func(*mechanism) auditOf {
	return func(m *mechanism) auditOf {
		refutes := of(m)
		return func(rng *rand.Rand) (bool, error) {
			included := coins(rng, 1000)
			scores := m.scores(rng, included)
			for _, k := range guesses {
				o, err := empirical.Guess(included, scores, k, k)
				if err != nil || refutes(o, empirical.Share(auditLevel, len(guesses))) {
					return false, err
				}
			}
			return true, nil
		}
	}
}

// manyRuns audits by 200 trainings with a coin each; every second training chooses the rule.
func manyRuns(value func(*mechanism, empirical.Rates) float64, truth func(*mechanism) float64) func(*mechanism) auditOf {
	return func(m *mechanism) auditOf {
		of := func(r empirical.Rates) float64 { return value(m, r) }
		return func(rng *rand.Rand) (bool, error) {
			var runs []empirical.Run
			for range 200 {
				coin := coins(rng, 1)
				runs = append(runs, empirical.Run{Score: m.scores(rng, coin)[0], Included: coin[0]})
			}
			return of(empirical.ChooseRule(runs[:100], of).Rates(runs[100:])) <= truth(m), nil
		}
	}
}

// estimated treats an estimate minus 1.645 standard errors as a bound, without a theorem.
func estimated(estimate func(*rand.Rand, *mechanism) (epsilon, standardError float64, err error)) func(*mechanism) auditOf {
	return func(m *mechanism) auditOf {
		return func(rng *rand.Rand) (bool, error) {
			epsilon, standardError, err := estimate(rng, m)
			return epsilon-float64(1.645*standardError) <= m.epsilon, err
		}
	}
}

// A one-shot audit has this number of parameters and of canary clients.
const (
	oneShotDimension = 64 * 160
	oneShotCanaries  = 100
)

// cosines are the cosines of random directions with the sum of the directions and noise of deviation 1/mu
// along each: a Gaussian mechanism (Andrew et al. 2024, algorithm 1). With mu 0 the sum is only noise.
func cosines(rng *rand.Rand, mu float64) []float64 {
	directions := lists.Make(oneShotCanaries, func(int) []uint64 {
		return lists.Make(oneShotDimension/64, func(int) uint64 { return rng.Uint64() })
	})
	length := math.Sqrt(oneShotDimension)
	released, squares := normals(rng, oneShotDimension, 0), 0.0
	for _, signs := range directions {
		for i := range released {
			released[i] += float64(mu / length * sign(signs, i))
		}
	}
	for _, x := range released {
		squares += float64(x * x)
	}
	return lists.Map(directions, func(signs []uint64) float64 {
		product := 0.0
		for i, x := range released {
			product += float64(x * sign(signs, i))
		}
		return product / length / math.Sqrt(squares)
	})
}

func sign(signs []uint64, i int) float64 { return float64(int64(signs[i/64]>>(i%64)&1)*2 - 1) }

// BoundCoverage is the coverage of a bound on the privacy of a mechanism.
type BoundCoverage struct {
	Bound     string `json:"bound"`
	Mechanism string `json:"mechanism"`
	Audits    int    `json:"audits"`
	// Covered is the share of audits whose bound is at most the truth.
	Covered float64 `json:"covered"`
	// Goal is the coverage to reach; empty if no theorem proves the bound for the mechanism.
	Goal string `json:"goal,omitempty"`
}

// RunBounds measures the coverage of all bounds of privacy audits, each by a number of simulated audits.
func RunBounds(simulated int, seed uint64) (rows []BoundCoverage, err error) {
	all, err := mechanisms()
	if err != nil {
		return nil, err
	}
	for i, b := range privacyBounds {
		for j, m := range all {
			audit := b.of(&m)
			if audit == nil {
				continue
			}
			row := BoundCoverage{Bound: b.name, Mechanism: m.name, Audits: simulated}
			if b.theorem(&m) {
				row.Goal = bound
			}
			rng := rand.New(rand.NewPCG(seed, uint64(i*len(all)+j)))
			for range simulated {
				held, err := audit(rng)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", b.name, m.name, err)
				}
				row.Covered += indicator(held) / float64(simulated)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// printBounds writes a table: for each bound the covered share in percent, by mechanism. No theorem covers a
// share in brackets.
func printBounds(rows []BoundCoverage, w io.Writer) {
	var names []string
	cells := map[string]map[string]string{}
	var columns []string
	for _, r := range rows {
		if cells[r.Bound] == nil {
			cells[r.Bound], names = map[string]string{}, append(names, r.Bound)
		}
		if len(names) == 1 { // the first bound is for all mechanisms
			columns = append(columns, r.Mechanism)
		}
		cell := fmt.Sprintf("%.1f", 100*r.Covered)
		if r.Goal == "" {
			cell = "(" + cell + ")"
		}
		cells[r.Bound][r.Mechanism] = cell
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "lower bound with 95%% confidence\t%s\n", strings.Join(columns, "\t"))
	for _, name := range names {
		fmt.Fprintf(t, "%s\t%s\n", name, strings.Join(lists.Map(columns, func(c string) string { return cells[name][c] }), "\t"))
	}
	_ = t.Flush()
}
