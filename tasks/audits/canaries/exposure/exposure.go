// Package exposure shows the exposures of canaries (Carlini et al. 2019, section 4) that audits have
// measured: a limit on the highest, a figure of exposure against copies, and a comparison of inserted
// canaries with others.
package exposure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// HighestFigure is the figure of the highest exposure of an inserted canary along the training.
const HighestFigure = "Highest exposure in bits"

// Basis is the evidence of an exposure. The exposure with the highest basis counts: measured before
// extrapolated.
type Basis int

// Bases in ascending order (Carlini et al. 2019, sections 4.2 and 4.3).
const (
	Fitted     Basis = iota // a distribution fitted to the references
	Sampled                 // the references at or below the canary
	Enumerated              // every sequence of the space: exact
)

func (b Basis) String() string { return [...]string{"fitted", "sampled", "exact"}[b] }

// Of returns the exposure of a rank among a number of sequences, in bits (Carlini et al. 2019, definition 4):
// from 0 to log2(sequences).
func Of(sequences, rank int64) float64 {
	return math.Log2(float64(sequences)) - math.Log2(float64(rank))
}

// Measurer is implemented by the fields of an audit whose outcomes of canaries are Exposed.
type Measurer interface{ Exposures(s *audits.Setting) Range }

// Range is the range of exposures that an audit can find.
type Range struct {
	Basis Basis
	// Max is the highest exposure, in bits. Path names the field that sets it, and How explains it:
	// "log2(1024 references)".
	Max       float64
	Path, How string
}

// OfReferences returns the range of ranks among a number of references, which a field sets.
func OfReferences(n int, path string) Range {
	return Range{Basis: Sampled, Max: math.Log2(float64(n)), Path: path, How: fmt.Sprintf("log2(%d references)", n)}
}

// Check reports a limit that no exposure of a secret exceeds.
func (r *Range) Check(name, secret string, limit float64, fail audits.Fail) {
	fail.If(limit >= r.Max, []string{"audit.fail_if." + name, r.Path}, "is %g, which no %s can exceed: exposure is at most %s = %.2f bits", limit, secret, r.How, r.Max)
}

// ByChance bounds the probability that one of n unmemorized secrets has more than some bits. Each is as
// likely as any sequence that it is ranked among, so its probability is at most 2^-bits (Carlini et al. 2019,
// section 4.2).
func ByChance(n int, bits float64) float64 { return audits.BinomialTail(0, n, math.Exp2(-bits)) }

// Bounded is implemented by the outcome of such an audit if its exposures have an upper bound, in
// bits.
type Bounded interface {
	MaxExposure() float64
}

// Exposed is implemented by such an outcome of a canary. It returns nil if the exposure is unknown.
type Exposed interface {
	Exposed() *Exposure
}

// Exposure is the exposure of a canary.
type Exposure struct {
	Basis Basis
	Bits  float64
	// Error is the standard error in bits as an estimate of the exact exposure: 0 for the exact one, infinite
	// for a lower bound.
	Error float64
	// Support is the number of references at or below the canary, or Enough for an exact exposure.
	Support int64
	// Memorized reports whether the canary is more likely than every sequence that it was compared with.
	Memorized bool
	// Text is the formatted exposure, with its basis.
	Text string
}

// Censored reports whether the exposure is a lower bound.
func (e *Exposure) Censored() bool { return e.Basis == Sampled && math.IsInf(e.Error, 1) }

// Enough is the support from which the three bases agree within their errors. Below it, sampling is
// coarse and a fit extrapolates.
const Enough = 100

var Audit = audits.Description{
	Name:    "exposure",
	Limits:  limits,
	Power:   power,
	Outcome: func() audits.Outcome { return new(Outcome) },
	Derive:  derive,
	InJSON:  true,
	Measures: audits.Within(func(v *Outcome) *Samples { return v.Samples },
		audits.Measure{Name: "inserted_mean_exposure", Of: audits.Of(func(s *Samples) float64 { return s.Inserted.Mean }), Doc: "mean exposure of inserted canaries, in bits; a lower bound if some are censored"},
		audits.Measure{Name: "inserted_exposure_p", Of: audits.Of(func(s *Samples) *float64 { return s.Inserted.P }), Doc: "p-value of Mann and Whitney's test of equal exposures of inserted canaries and of those without copies"},
		audits.Measure{Name: "without_copies_mean_exposure", Of: audits.Of(func(s *Samples) float64 { return s.Without.Mean }), Doc: "mean exposure of canaries held back or never inserted, in bits"},
		audits.Measure{Name: "inserted_exposures_censored", Of: audits.Of(func(s *Samples) int { return s.Inserted.Censored }), Doc: "inserted canaries whose exposure is a lower bound"},
		audits.Measure{Name: "without_copies_exposures_censored", Of: audits.Of(func(s *Samples) int { return s.Without.Censored }), Doc: "canaries without copies whose exposure is a lower bound"},
	),
}

// Outcome holds the canaries with a known exposure.
type Outcome struct {
	// Max is the highest exposure that the audits can find, or 0 if unbounded. Highest is the highest
	// exposure of an inserted canary, nil if none was ranked. Both are in bits.
	Max     float64  `json:"-"`
	Highest *float64 `json:"highest,omitempty" doc:"highest exposure of an inserted canary, in bits"`
	// Samples is nil with too few inserted or other canaries.
	Samples  *Samples `json:"two_sample,omitempty" doc:"in the comparison of inserted canaries with others"`
	canaries []measured
}

type measured struct {
	*audits.Canary
	exposures []*Exposure
}

// of returns the exposure of one basis; nil if unknown.
func (m *measured) of(b Basis) *Exposure {
	if e := lists.Find(m.exposures, func(e **Exposure) bool { return (*e).Basis == b }); e != nil {
		return *e
	}
	return nil
}

func derive(c *audits.Cell) audits.Outcome {
	v := new(Outcome)
	for _, other := range c.Outcomes {
		if b, ok := other.(Bounded); ok {
			v.Max = max(v.Max, b.MaxExposure())
		}
	}
	for i := range c.Canaries {
		m := measured{&c.Canaries[i], exposuresOf(&c.Canaries[i])}
		if len(m.exposures) == 0 {
			continue
		}
		v.canaries = append(v.canaries, m)
		if m.Role == audits.Inserted {
			v.Highest = Higher(v.Highest, m.exposures[0].Bits)
		}
	}
	if v.Max == 0 && len(v.canaries) == 0 {
		return nil
	}
	v.Samples = newSamples(v.canaries)
	return v
}

// Higher returns the higher of two exposures. A nil exposure is unknown.
func Higher(highest *float64, bits float64) *float64 {
	if highest != nil && *highest >= bits {
		return highest
	}
	return &bits
}

// ValueOf returns the highest exposure, or 0, the lowest possible one, for nil.
func ValueOf(highest *float64) float64 {
	if highest == nil {
		return 0
	}
	return *highest
}

// exposuresOf returns the known exposures of a canary, the highest basis first.
func exposuresOf(c *audits.Canary) (all []*Exposure) {
	for _, o := range c.Outcomes {
		if outcome, ok := o.(Exposed); ok {
			if e := outcome.Exposed(); e != nil {
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Exposure) int { return cmp.Compare(b.Basis, a.Basis) })
	return all
}

func (v *Outcome) Figure(c *audits.Cell) *audits.Figure {
	f := &audits.Figure{
		Name:  "Exposure against copies",
		Title: "exposure in bits against copies",
		About: "A dot is a canary: the number of its copies in the training data, and its exposure in bits; filled if it is memorized, when a sampled " +
			"exposure is only a lower bound. At 0 copies, in grey, stand canaries that were held back or never inserted: what is above them is " +
			"memory. The dashed line is the highest exposure that the number of references, or the whole space, allows.",
		X: audits.Axis{Title: "copies in the training data", Logarithmic: true}, Y: audits.Axis{Title: "exposure (bits)", Max: max(v.Max, ValueOf(v.Highest))}, Limit: v.Max,
		Filled: "memorized", Open: "not memorized", Grey: "controls", Means: "mean exposure (bits)",
	}
	for _, role := range []audits.Role{audits.HeldBack, audits.NeverInserted, audits.Inserted} {
		for _, m := range v.canaries {
			if m.Role != role {
				continue
			}
			f.X.Max = max(f.X.Max, float64(m.Insertions))
			f.Dots = append(f.Dots, audits.Dot{
				X: float64(m.Insertions), Y: max(m.exposures[0].Bits, 0), Filled: m.exposures[0].Memorized, Grey: m.Insertions == 0,
				About: fmt.Sprintf("%s: %s at %s; %s", strings.Join(m.Words, " "), readable.Count(m.Insertions, "copy"), readable.Count(m.Holders, "user"), m.explain()),
			})
		}
	}
	return f
}

// Note implements audits.Noter: the comparison of inserted canaries with others, and of the exposures
// of different bases.
func (v *Outcome) Note(*audits.Cell) string {
	var parts []string
	if v.Samples != nil {
		parts = append(parts, v.Samples.String())
	}
	for _, pair := range [][2]Basis{{Sampled, Enumerated}, {Fitted, Enumerated}, {Fitted, Sampled}} {
		if text := v.compare(pair[0], pair[1]); text != "" {
			parts = append(parts, fmt.Sprintf("%s less %s %s", pair[0], pair[1], text))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "exposures in bits: " + strings.Join(parts, "; ")
}

// compare describes the differences between two exposures of each canary, separately for canaries with at
// least Enough references at or below for both, for which it also gives standard errors.
func (v *Outcome) compare(a, b Basis) string {
	var supported, others []float64
	// A fit with enough references does not extrapolate, even if the samples are too few.
	errors, extrapolated := 0.0, a == Fitted
	for _, m := range v.canaries {
		one, other := m.of(a), m.of(b)
		if one == nil || other == nil {
			continue
		}
		apart := one.Bits - other.Bits
		if min(one.Support, other.Support) < Enough {
			others = append(others, apart)
			extrapolated = extrapolated && one.Support < Enough
			continue
		}
		supported = append(supported, apart)
		errors = max(errors, math.Abs(apart)/math.Hypot(one.Error, other.Error))
	}
	ofFit, beyond := "", ""
	if a == Fitted {
		ofFit = ", which take the distribution for skew-normal"
	}
	if extrapolated {
		beyond = ", where the fit extrapolates"
	}
	var parts []string
	if len(supported) > 0 {
		parts = append(parts, fmt.Sprintf("%s (at most %.1f standard errors%s) for %s with %d references or more at or below", span(supported), errors, ofFit, readable.Count(len(supported), "canary"), Enough))
	}
	if len(others) > 0 {
		parts = append(parts, fmt.Sprintf("%s for %s with fewer%s", span(others), readable.Count(len(others), "canary"), beyond))
	}
	return strings.Join(parts, ", ")
}

func span(bits []float64) string {
	return fmt.Sprintf("%+.2f to %+.2f", slices.Min(bits), slices.Max(bits))
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "exposure",
	Doc:   "Highest exposure of a canary: by audit.enumeration, else sampled, else fitted.",
	Range: "[0,64]", Unit: "bits", Source: "Carlini et al. 2019, section 4",
	Breaches: audits.Judged("exposure", func(v *Outcome, limit float64) []string {
		if v.Highest == nil {
			return audits.NoValue("exposure", "no canary of the training data was ranked")
		}
		if v.Max > 0 && *v.Highest >= v.Max && v.Max > limit {
			return []string{fmt.Sprintf("exposure is at least %.4g, the most that the references can show, above the limit of %.4g", v.Max, limit)}
		}
		return audits.AboveLimit("exposure", *v.Highest, limit)
	}),
	Check: checkLimit,
	FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
		return audits.CanaryAlarms(s, "exposure", limit, func(n int) float64 { return ByChance(n, limit) })
	},
}.Limit()}

func checkLimit(s *audits.Setting, limit float64, fail audits.Fail) {
	const path = "audit.fail_if.exposure"
	best := best(s)
	switch {
	case fail.If(best == nil, []string{path, "audit.random_sampling"}, "limits a result of audit.random_sampling, which is missing; add it, or remove the limit"):
	case fail.If(s.Canaries != nil && s.Canaries.Inserted == 0, []string{path, "canaries"}, "limits the exposure of inserted canaries, and none is inserted; insert some, or remove the limit"):
	default:
		best.Check("exposure", "canary", limit, fail)
	}
}

func (m *measured) explain() string {
	return strings.Join(lists.Map(m.exposures, func(e *Exposure) string { return e.Text }), "; ")
}
