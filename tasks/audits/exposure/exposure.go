// Package exposure shows the exposures of canaries (Carlini et al. 2019, section 4),
// whichever audit has measured them: a limit on the highest, and a figure of each
// canary's against its copies.
package exposure

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/tasks/audits"
)

// Measurer is implemented by the fields of an audit whose outcomes are Outcomes.
type Measurer interface {
	// MostExposure is the highest exposure that the audit could find, in bits, the path of
	// the field that it follows from, and how: "log2(1024 references)".
	MostExposure(s *audits.Setting) (bits float64, path, how string)
}

// Bounded is implemented by the verdict of such an audit.
type Bounded interface {
	// MostExposure is the highest exposure that the audit could find, in bits.
	MostExposure() float64
}

// Outcome is implemented by the outcomes of such an audit.
type Outcome interface {
	// Bits are the canary's exposure; false where it is not known.
	Bits() (bits float64, known bool)
	// IsMemorized says that the exposure is only a lower bound.
	IsMemorized() bool
	// Explain says the exposure, and what it rests on.
	Explain() string
}

// Audit is not asked for: it follows from the audits that measure exposure.
var Audit = audits.Description{
	Name:    "exposure",
	Limits:  func() audits.Limits { return new(Limits) },
	Verdict: func() audits.Verdict { return new(Verdict) },
	Derive:  derive,
}

// Verdict holds the canaries of which the exposure is known.
type Verdict struct {
	// Most is the highest exposure that could have been found, Highest that of an inserted
	// canary; in bits.
	Most, Highest float64
	canaries      []measured
}

type measured struct {
	*audits.Canary
	outcome Outcome
	bits    float64
}

func derive(c *audits.Cell) audits.Verdict {
	v := new(Verdict)
	for _, other := range c.Verdicts {
		if b, ok := other.(Bounded); ok {
			v.Most = max(v.Most, b.MostExposure())
		}
	}
	if v.Most == 0 {
		return nil
	}
	for i := range c.Canaries {
		canary := &c.Canaries[i]
		for _, o := range canary.Outcomes {
			outcome, ok := o.(Outcome)
			if !ok {
				continue
			}
			bits, known := outcome.Bits()
			if !known {
				continue
			}
			v.canaries = append(v.canaries, measured{canary, outcome, bits})
			if canary.Role == audits.Inserted {
				v.Highest = max(v.Highest, bits)
			}
		}
	}
	return v
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string { return nil }

// Row implements audits.Verdict.
func (v *Verdict) Row() any { return struct{}{} }

// Figure implements audits.Figured.
func (v *Verdict) Figure(c *audits.Cell) *audits.Figure {
	f := &audits.Figure{
		Name:  "Exposure against copies",
		Title: "exposure in bits against copies",
		About: "A dot is a canary: the number of its copies in the training data, and its exposure in bits; filled if it is memorized, when the " +
			"exposure is only a lower bound. At 0 copies, in grey, stand canaries that were held back or never inserted: what is above them is " +
			"memory. The dashed line is the most that so many references can show.",
		X: audits.Axis{Logarithmic: true}, Y: audits.Axis{Most: v.Most * 1.05}, Limit: v.Most,
	}
	for _, role := range []audits.Role{audits.Control, audits.NeverInserted, audits.Inserted} {
		for _, m := range v.canaries {
			if m.Role != role {
				continue
			}
			f.X.Most = max(f.X.Most, float64(m.Insertions))
			f.Dots = append(f.Dots, audits.Dot{
				X: float64(m.Insertions), Y: max(m.bits, 0), Filled: m.outcome.IsMemorized(), Grey: m.Insertions == 0,
				About: fmt.Sprintf("%s: %d copies at %d users; %s", strings.Join(m.Words, " "), m.Insertions, m.Holders, m.outcome.Explain()),
			})
		}
	}
	return f
}

// Limits of audit.fail_if.
type Limits struct {
	// Exposure limits the highest exposure of any canary.
	Exposure *float64 `json:"exposure,omitempty" range:"[0,64]" unit:"bits" source:"Carlini et al. 2019, section 4"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	return audits.Above("exposure", v.Highest, l.Exposure)
}

// Check implements audits.LimitChecker.
func (l *Limits) Check(s *audits.Setting, fail audits.Fail) {
	const path = "audit.fail_if.exposure"
	if l.Exposure == nil {
		return
	}
	isMeasurer := func(f audits.Fields) bool { _, ok := f.(Measurer); return ok }
	if !slices.ContainsFunc(s.Audits, isMeasurer) {
		fail([]string{path, "audit.random_sampling"}, "limits what audit.random_sampling measures, which is not there; add it, or remove the limit")
		return
	}
	for _, f := range s.Audits {
		m, ok := f.(Measurer)
		if !ok {
			continue
		}
		if most, because, how := m.MostExposure(s); *l.Exposure >= most {
			fail([]string{path, because}, "is %g, which no canary can exceed: exposure is at most %s = %.2f bits", *l.Exposure, how, most)
		}
	}
}
