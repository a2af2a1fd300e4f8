package skewnormal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

type Fields struct {
	// Exposure of each canary by a skew-normal distribution, fitted to log-perplexities of random
	// sequences.
	SkewNormal *Block `json:"skew_normal,omitempty" source:"Carlini et al. 2019, section 4.3"`
}

type Block struct {
	// Random sequences: the first half is fitted, the second tests the fit.
	References int `json:"references" default:"10000" range:"[100,10000000]" unit:"sequences"`
	audits.PrefixField
	// Fits on resampled references, for the standard error of an exposure.
	Bootstrap int `json:"bootstrap" default:"100" range:"[2,10000]" unit:"fits"`
	// Fits and tests on simulated references, for a p-value that accounts for the error of the fit.
	// Absent: none.
	Calibration *int `json:"calibration,omitempty" range:"[19,100000]" unit:"fits" source:"Stute, Manteiga and Quindimil 1993"`
}

const path = "audit.skew_normal"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.SkewNormal.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	f.SkewNormal.CheckPrefix(s, path, fail)
	f.SkewNormal.CheckReferences(s, path, f.SkewNormal.References, fail)
}

// Exposures: a fitted exposure has no bound.
func (f *Fields) Exposures(*audits.Setting) exposure.Range {
	return exposure.Range{Basis: exposure.Fitted, Max: math.Inf(1), Path: path, How: "a fitted distribution"}
}

// canariesATask is the number of canaries per task if each has its own prefix. It affects keys, not results.
const canariesATask = 4

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	calibration := *cmp.Or(f.SkewNormal.Calibration, new(int))
	groups := slices.Concat(lists.Map(b.Setting().Canaries.Groups, func(g audits.Group) []audits.Group { // all of a group where the format fixes the prefix
		return g.SplitByPrefix(g.Prefix(f.SkewNormal.Prefix), canariesATask)
	})...)
	parts := canaries.Tasks(b, round, Kind, groups, func(g audits.Group) (string, any) {
		return fmt.Sprintf("skew-normal fit from canary %d after %d", g.First, round), Params{
			Seed: b.Setting().Seed, References: f.SkewNormal.References, Bootstrap: f.SkewNormal.Bootstrap, Calibration: calibration,
			Space: g.Space, Prefix: g.Prefix(f.SkewNormal.Prefix), First: g.First, Count: g.Count,
		}
	})
	return canaries.Summarize(b, round, Summary, "skew-normal fit", SummaryParams{len(parts)}, parts)
}

func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 { return f.references(g) * float64(g.Words-g.Prefix(f.SkewNormal.Prefix)) })
}

func (f *Fields) references(g audits.Group) float64 {
	return float64(len(g.SplitByPrefix(g.Prefix(f.SkewNormal.Prefix), 1)) * f.SkewNormal.References)
}

// fitWork is the work of a reference in one fit: with table1-small of examples/carlini-2019 a core
// that trains with 75 GFLOP/s takes 0.75 microseconds.
const fitWork = 55e3

func (f *Fields) Work(s *audits.Setting) float64 {
	fits := 1 + f.SkewNormal.Bootstrap + *cmp.Or(f.SkewNormal.Calibration, new(int))
	return fitWork * s.Canaries.Sum(f.references) * float64(fits)
}
