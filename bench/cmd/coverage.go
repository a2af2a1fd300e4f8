// These files measure how often the intervals of replicates contain the truth, with simulated results of
// known truth.
//
// A canary is memorized if a normal number is above 0: the sum of the effects of its row, of its
// configuration, of the seed (shared by all rows), of the training (specific to the row), of the canary
// (shared by rows), and of a residual. So the probability is that of a normal distribution with the sum of
// the variances.

package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/tasks/audits"
	"coalmine/workflows/results"
)

// Study is a simulated experiment.
type Study struct {
	// Seeds of a row.
	Seeds int
	// Row is the effect of the first row relative to the second, in standard deviations of the
	// residual, and Level the effect of the second.
	Row, Level float64
	// Configurations of canaries, each with PerConfiguration, differ by Spread.
	Configurations, PerConfiguration int
	Spread                           float64
	// Seed, Training and Canary are standard deviations.
	Seed, Training, Canary float64
}

// thakkar returns a study of 90 canaries of nine configurations, as in Thakkar et al. 2020, section 4.1.
func thakkar(seeds int, level float64) Study {
	return Study{Seeds: seeds, Row: -0.5, Level: level, Configurations: 9, PerConfiguration: 10, Spread: 0.5, Seed: 0.15, Training: 0.15, Canary: 0.7}
}

// alike returns a study of the same number of canaries without shared effects.
func alike(seeds int) Study {
	return Study{Seeds: seeds, Level: -0.3, Configurations: 1, PerConfiguration: 90}
}

// probability returns the probability that a canary of a row is memorized, over all random effects.
func (s *Study) probability(row float64) (p float64) {
	deviation := math.Sqrt(1 + s.Seed*s.Seed + s.Training*s.Training + s.Canary*s.Canary)
	for k := range s.Configurations {
		p += distuv.UnitNormal.CDF((row+s.offset(k))/deviation) / float64(s.Configurations)
	}
	return p
}

func (s *Study) offset(configuration int) float64 {
	return s.Spread * (float64(configuration) - float64(s.Configurations-1)/2)
}

// outcome of a study: for each seed the canaries of both rows, 1 for memorized.
type outcome struct{ first, second [][]float64 }

func (s *Study) draw(rng *rand.Rand) *outcome {
	o := new(outcome)
	for range s.Seeds {
		shared := s.Seed * rng.NormFloat64()
		one, other := shared+s.Training*rng.NormFloat64(), shared+s.Training*rng.NormFloat64()
		var first, second []float64
		for i := range s.Configurations * s.PerConfiguration {
			canary := s.Level + s.offset(i%s.Configurations) + s.Canary*rng.NormFloat64()
			first = append(first, indicator(s.Row+canary+one+rng.NormFloat64() > 0))
			second = append(second, indicator(canary+other+rng.NormFloat64() > 0))
		}
		o.first, o.second = append(o.first, first), append(o.second, second)
	}
	return o
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// interval returns an interval of an outcome, and the truth that it should contain.
type interval func(*Study, *outcome) (low, high, truth float64)

// mean is the mean of memorized canaries of the second row, by their pooled share.
func mean(s *Study, o *outcome) (low, high, truth float64) {
	var counts []float64
	for _, canaries := range o.second {
		counts = append(counts, sum(canaries))
	}
	estimate := audits.NewEstimate(counts)
	estimate.Pool(share(o))
	low, high = bounds(estimate)
	return low, high, float64(s.Configurations*s.PerConfiguration) * s.probability(s.Level)
}

// pooled is the share over the canaries of all seeds, by Korn and Graubard: those of a seed form a group.
func pooled(s *Study, o *outcome) (low, high, truth float64) {
	memorized := share(o)
	return memorized.Low, memorized.High, s.probability(s.Level)
}

// share returns the share of memorized canaries of the second row.
func share(o *outcome) audits.Share {
	var ratio audits.Ratio
	for _, canaries := range o.second {
		ratio.Add(int(sum(canaries)), len(canaries))
	}
	return ratio.ShareOfCanaries()
}

// paired is the difference of the two rows' shares, by Student's t over the seeds.
func paired(s *Study, o *outcome) (low, high, truth float64) {
	low, high = bounds(s.pairing(o).Difference)
	return low, high, s.probability(s.Row+s.Level) - s.probability(s.Level)
}

func (s *Study) pairing(o *outcome) *results.Pairing {
	var seeds [][]float64
	for i := range o.first {
		var differences []float64
		for j := range o.first[i] {
			differences = append(differences, o.first[i][j]-o.second[i][j])
		}
		seeds = append(seeds, differences)
	}
	return results.NewPairing(seeds)
}

// signs is the sign test of rows that memorize alike, as an interval from 1 - Confidence to 1 around its
// p-value: p lies within it in a share of at least Confidence of the cases.
func signs(s *Study, o *outcome) (low, high, truth float64) {
	return 1 - audits.Confidence, 1, s.pairing(o).P
}

// bounds returns the ends of an interval; a missing interval contains every truth.
func bounds(e *audits.Estimate) (low, high float64) {
	if e.Low == nil {
		return math.Inf(-1), math.Inf(1)
	}
	return *e.Low, *e.High
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// CoverageRow holds the measured coverage of one interval.
type CoverageRow struct {
	Interval string `json:"interval"`
	Of       string `json:"of"`
	Seeds    int    `json:"seeds"`
	Draws    int    `json:"draws"`
	// Covered is the share of the draws with an interval that contains the truth, in [0, 1].
	Covered float64 `json:"covered"`
	// Goal is the coverage to reach; empty if the study violates an assumption of the
	// interval.
	Goal string `json:"goal,omitempty"`
}

const (
	goal      = "93 to 97%"
	bound     = "95% or more"
	canaries  = "Thakkar et al.'s 90 canaries"
	identical = "90 independent canaries"
)

// RunCoverage measures the coverage of all intervals, each by a number of draws.
func RunCoverage(draws int, seed uint64) []CoverageRow {
	rng := rand.New(rand.NewPCG(seed, 0))
	alone := thakkar(5, -0.8)
	alone.Seed, alone.Training = 0, 0
	together := thakkar(5, -0.8)
	together.Spread, together.Canary = 0, 0
	equal, scarce := alike(5), alike(5)
	scarce.Level = -1.6
	var rows []CoverageRow
	for _, c := range []struct {
		CoverageRow
		study Study
		is    interval
	}{
		{CoverageRow{Interval: "Korn-Graubard, mean count", Of: canaries, Goal: bound}, thakkar(3, -0.8), mean},
		{CoverageRow{Interval: "Korn-Graubard, mean count", Of: canaries, Goal: bound}, thakkar(5, -0.8), mean},
		{CoverageRow{Interval: "Korn-Graubard, mean count", Of: canaries, Goal: bound}, thakkar(10, -0.8), mean},
		{CoverageRow{Interval: "Korn-Graubard, mean count", Of: canaries + ", few memorized", Goal: bound}, thakkar(5, -3), mean},
		{CoverageRow{Interval: "t, paired difference", Of: canaries, Goal: goal}, thakkar(3, -0.8), paired},
		{CoverageRow{Interval: "t, paired difference", Of: canaries, Goal: goal}, thakkar(5, -0.8), paired},
		{CoverageRow{Interval: "t, paired difference", Of: canaries, Goal: goal}, thakkar(10, -0.8), paired},
		{CoverageRow{Interval: "t, paired difference", Of: canaries + ", few memorized", Goal: goal}, thakkar(5, -3), paired},
		{CoverageRow{Interval: "Korn-Graubard, pooled", Of: identical, Goal: bound}, alike(5), pooled},
		{CoverageRow{Interval: "Korn-Graubard, pooled", Of: canaries + ", trainings alike", Goal: bound}, alone, pooled},
		{CoverageRow{Interval: "Korn-Graubard, pooled", Of: canaries, Goal: bound}, thakkar(5, -0.8), pooled},
		{CoverageRow{Interval: "Korn-Graubard, pooled", Of: "canaries alike, trainings not", Goal: bound}, together, pooled},
		{CoverageRow{Interval: "sign test, p >= 5% of equal rows", Of: identical, Goal: bound}, equal, signs},
		{CoverageRow{Interval: "Korn-Graubard, mean count", Of: canaries + ", hardly any memorized", Goal: bound}, thakkar(5, -5), mean},
		{CoverageRow{Interval: "Korn-Graubard, pooled", Of: identical + ", few memorized", Goal: bound}, scarce, pooled},
	} {
		c.Seeds, c.Draws = c.study.Seeds, draws
		covered := 0
		for range draws {
			if low, high, truth := c.is(&c.study, c.study.draw(rng)); low <= truth && truth <= high {
				covered++
			}
		}
		c.Covered = float64(covered) / float64(draws)
		rows = append(rows, c.CoverageRow)
	}
	return rows
}

// CoverageReport holds the tables. The first two may be missing.
type CoverageReport struct {
	Rows   []CoverageRow   `json:"rows,omitempty"`
	Few    []Few           `json:"few_users,omitempty"`
	Bounds []BoundCoverage `json:"bounds"`
}

// Print writes the tables.
func (r *CoverageReport) Print(w io.Writer) {
	if r.Rows != nil {
		printRows(r.Rows, w)
		fmt.Fprintf(w, "\nIntervals over few users (or canaries, sentences, seeds): the truth is inside, in %%\n")
		printFew(r.Few, w)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "Bounds of privacy audits: at most the truth, in % of simulated audits; in brackets without a theorem")
	printBounds(r.Bounds, w)
}

func printRows(rows []CoverageRow, w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "interval\tof\tseeds\tdraws\tcovered\tgoal")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f%%\t%s\n", r.Interval, r.Of, r.Seeds, r.Draws, 100*r.Covered, r.Goal)
	}
	_ = t.Flush()
}
