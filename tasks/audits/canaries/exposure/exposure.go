// Package exposure shows the exposures of canaries (Carlini et al. 2019, section 4),
// whichever audit has measured them: a limit on the highest, and a figure of each
// canary's against its copies.
package exposure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/tasks/audits"
)

// HighestFigure is the figure of the highest exposure of an inserted canary along the
// training.
const HighestFigure = "Highest exposure in bits"

// Basis is what an exposure rests on. Of one canary the exposure with the higher basis
// counts: what was measured before what was extrapolated.
type Basis int

// Ways to know an exposure (Carlini et al. 2019, sections 4.2 and 4.3), in ascending order.
const (
	Fitted     Basis = iota // a distribution fitted to the references
	Sampled                 // the references at or below the canary
	Enumerated              // every sequence of the space: exact
)

// String is the basis in words of a sentence.
func (b Basis) String() string { return [...]string{"fitted", "sampled", "exact"}[b] }

// Measurer is implemented by the fields of an audit whose canaries' outcomes are Exposed.
type Measurer interface{ Exposures(s *audits.Setting) Range }

// Range is how high exposures an audit can find.
type Range struct {
	Basis Basis
	// Most is the highest, in bits; Path names the field that it follows from, and How says
	// so: "log2(1024 references)".
	Most      float64
	Path, How string
}

// Bounded is implemented by the outcome of such an audit, if its exposures have a bound.
type Bounded interface {
	// MostExposure is the highest exposure that the audit could find, in bits.
	MostExposure() float64
}

// Exposed is implemented by what such an audit says of a canary.
type Exposed interface {
	// Exposed is nil where the exposure is not known.
	Exposed() *Exposure
}

// Exposure of a canary.
type Exposure struct {
	Basis Basis
	Bits  float64
	// Error is the standard error in bits, as an estimate of the exact exposure; 0 for that,
	// and infinite where the exposure is only a lower bound.
	Error float64
	// Support is how many references at or below the canary the exposure rests on. An exact
	// one needs none, and has Enough.
	Support int64
	// Memorized says that the canary is more likely than all that it was compared with.
	Memorized bool
	// Text is the exposure for people, with its basis.
	Text string
}

// Enough is the support from which the three ways to measure an exposure agree within
// their errors. Below it, sampling is coarse and a fit extrapolates.
const Enough = 100

// Audit is not asked for: it follows from the audits that measure exposure.
var Audit = audits.Description{
	Name:    "exposure",
	Limits:  limits,
	Outcome: func() audits.Outcome { return new(Outcome) },
	Derive:  derive,
	InJSON:  true,
	Measures: audits.Within(func(v *Outcome) *Samples { return v.Samples },
		audits.Measure{Name: "inserted_mean_exposure", Of: audits.Of(func(s *Samples) float64 { return s.Inserted.Mean })},
		audits.Measure{Name: "inserted_exposure_p", Of: audits.Of(func(s *Samples) *float64 { return s.Inserted.P })},
		audits.Measure{Name: "without_copies_mean_exposure", Of: audits.Of(func(s *Samples) float64 { return s.Without.Mean })},
	),
}

// Outcome holds the canaries of which the exposure is known.
type Outcome struct {
	// Most is the highest exposure that could have been found, 0 where there is no bound.
	// Highest is that of an inserted canary; nil if none was ranked. In bits.
	Most    float64  `json:"-"`
	Highest *float64 `json:"highest,omitempty"`
	// Samples compares canaries that were inserted with those that were not; nil where
	// either are too few.
	Samples  *Samples `json:"two_sample,omitempty"`
	canaries []measured
}

// measured is a canary and its exposures, the highest basis first.
type measured struct {
	*audits.Canary
	exposures []*Exposure
}

// of is the exposure of one basis; nil if it is not known.
func (m *measured) of(b Basis) *Exposure {
	if i := slices.IndexFunc(m.exposures, func(e *Exposure) bool { return e.Basis == b }); i >= 0 {
		return m.exposures[i]
	}
	return nil
}

func derive(c *audits.Cell) audits.Outcome {
	v := new(Outcome)
	for _, other := range c.Outcomes {
		if b, ok := other.(Bounded); ok {
			v.Most = max(v.Most, b.MostExposure())
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
	if v.Most == 0 && len(v.canaries) == 0 {
		return nil
	}
	v.Samples = newSamples(v.canaries)
	return v
}

// Higher is the higher of two exposures, of which the first is nil as long as none is known.
func Higher(highest *float64, bits float64) *float64 {
	if highest != nil && *highest >= bits {
		return highest
	}
	return &bits
}

// ValueOf is the highest exposure of inserted canaries, 0 if none was ranked: no exposure is lower.
func ValueOf(highest *float64) float64 {
	if highest == nil {
		return 0
	}
	return *highest
}

// exposuresOf are the exposures that are known of a canary, the highest basis first.
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

// Figure implements audits.Figured.
func (v *Outcome) Figure(c *audits.Cell) *audits.Figure {
	f := &audits.Figure{
		Name:  "Exposure against copies",
		Title: "exposure in bits against copies",
		About: "A dot is a canary: the number of its copies in the training data, and its exposure in bits; filled if it is memorized, when a sampled " +
			"exposure is only a lower bound. At 0 copies, in grey, stand canaries that were held back or never inserted: what is above them is " +
			"memory. The dashed line is the most that so many references, or the whole space, can show.",
		X: audits.Axis{Logarithmic: true}, Y: audits.Axis{Most: max(v.Most, ValueOf(v.Highest)) * 1.05}, Limit: v.Most,
	}
	for _, role := range []audits.Role{audits.Control, audits.NeverInserted, audits.Inserted} {
		for _, m := range v.canaries {
			if m.Role != role {
				continue
			}
			f.X.Most = max(f.X.Most, float64(m.Insertions))
			f.Dots = append(f.Dots, audits.Dot{
				X: float64(m.Insertions), Y: max(m.exposures[0].Bits, 0), Filled: m.exposures[0].Memorized, Grey: m.Insertions == 0,
				About: fmt.Sprintf("%s: %d copies at %d users; %s", strings.Join(m.Words, " "), m.Insertions, m.Holders, m.explain()),
			})
		}
	}
	return f
}

// Note implements audits.Noter: whether the inserted canaries can be told from the others, and
// how far apart the exposures of the canaries are, of which several are known.
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

// compare says how far apart two exposures of each canary are: of those with Enough references at
// or below for both, also in standard errors, and of the others.
func (v *Outcome) compare(a, b Basis) string {
	var supported, others []float64
	errors := 0.0
	for _, m := range v.canaries {
		one, other := m.of(a), m.of(b)
		if one == nil || other == nil {
			continue
		}
		apart := one.Bits - other.Bits
		if min(one.Support, other.Support) < Enough {
			others = append(others, apart)
			continue
		}
		supported = append(supported, apart)
		errors = max(errors, math.Abs(apart)/math.Hypot(one.Error, other.Error))
	}
	ofFit, beyond := "", ""
	if a == Fitted {
		ofFit, beyond = ", which take the distribution for skew-normal", ", where the fit extrapolates"
	}
	var parts []string
	if len(supported) > 0 {
		parts = append(parts, fmt.Sprintf("%s (at most %.1f standard errors%s) for %s with %d references or more at or below", span(supported), errors, ofFit, canaries(len(supported)), Enough))
	}
	if len(others) > 0 {
		parts = append(parts, fmt.Sprintf("%s for %s with fewer%s", span(others), canaries(len(others)), beyond))
	}
	return strings.Join(parts, ", ")
}

func canaries(n int) string {
	if n == 1 {
		return "1 canary"
	}
	return fmt.Sprintf("%d canaries", n)
}

func span(bits []float64) string {
	return fmt.Sprintf("%+.2f to %+.2f", slices.Min(bits), slices.Max(bits))
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "exposure",
	Doc:   "Exposure limits the highest exposure of any canary: the exact one where audit.enumeration has it, else the sampled one, else the fitted one.",
	Range: "[0,64]", Unit: "bits", Source: "Carlini et al. 2019, section 4",
	Breaches: audits.Judged(func(v *Outcome, limit float64) []string { return audits.Above("exposure", ValueOf(v.Highest), limit) }),
	Check:    checkLimit, FalseAlarms: falseAlarms,
}.Limit()}

// falseAlarms are those of unmemorized canaries: each is as likely as any other sequence of those
// it is ranked among, so that its exposure is above T bits with a probability of at most 2^-T
// (Carlini et al. 2019, section 4.2).
func falseAlarms(s *audits.Setting, limit float64) []audits.FalseAlarm {
	return audits.CanaryAlarms(s, "exposure", limit, func(n int) float64 { return audits.MoreThan(0, n, math.Exp2(-limit)) })
}

func checkLimit(s *audits.Setting, limit float64, fail audits.Fail) {
	const path = "audit.fail_if.exposure"
	var best *Range
	for _, f := range s.Audits {
		if m, ok := f.(Measurer); ok {
			if r := m.Exposures(s); best == nil || r.Basis > best.Basis {
				best = &r
			}
		}
	}
	if best == nil {
		fail([]string{path, "audit.random_sampling"}, "limits what audit.random_sampling measures, which is not there; add it, or remove the limit")
		return
	}
	if limit >= best.Most {
		fail([]string{path, best.Path}, "is %g, which no canary can exceed: exposure is at most %s = %.2f bits", limit, best.How, best.Most)
	}
}

// explain says every exposure of a canary.
func (m *measured) explain() string {
	var all []string
	for _, e := range m.exposures {
		all = append(all, e.Text)
	}
	return strings.Join(all, "; ")
}
