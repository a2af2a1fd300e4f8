package skewnormal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:     "skew_normal",
	Kinds:    []tasks.Kind{Kind, Summary},
	Pairs:    audits.EverySecret,
	Measures: measures,
	Canary:   audits.Members[CanaryOutcome](audits.Measure{Name: "fitted_exposure", Paired: true}),
})

var measures = []audits.Measure{
	{
		Name: "skew_normal_highest_exposure", Of: audits.Of(func(v *Outcome) *float64 { return v.Highest }), Header: "fitted exposure", Scale: audits.Plain, Digits: 1,
		Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "skew-normal fit"},
		Doc:   "highest exposure of an inserted canary in bits, by a skew-normal distribution fitted to log-perplexities of references (Carlini et al. 2019, section 4.3)",
	},
	{Name: "skew_normal_fits", Of: audits.Of(func(v *Outcome) int { return len(v.Fits) }), Doc: "fitted distributions, one for each distinct prefix"},
	{Name: "skew_normal_least_ks_p", Of: audits.Of((*Outcome).MinP), Header: "KS p", Text: audits.Of(func(v *Outcome) string { return fmt.Sprintf("%.2g", v.MinP()) }), Doc: "least p-value of the Kolmogorov-Smirnov tests of the fits on other references; a small one means that the distribution does not fit"},
}

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

// leastReferences is the lower end of the range of references.
const leastReferences = 100

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.SkewNormal.CompletePrefix(s, path, given)
	if !given(path + ".references") {
		f.SkewNormal.FitReferences(s, &f.SkewNormal.References, leastReferences)
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	f.SkewNormal.CheckPrefix(s, path, fail)
	f.SkewNormal.CheckReferences(s, path, f.SkewNormal.References, fail)
}

// Exposures implements exposure.Measurer. A fitted exposure has no bound.
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

// Outcome has a fit for each prefix of the canaries.
type Outcome struct {
	// Highest is the highest fitted exposure of an inserted canary, in bits; nil if none was inserted.
	Highest *float64 `json:"highest,omitempty" doc:"highest fitted exposure of an inserted canary, in bits"`
	Fits    []Fit    `json:"fits"`
}

// MinP returns the least p-value of the fits; 1 without fits.
func (v *Outcome) MinP() float64 {
	least := 1.0
	for _, f := range v.Fits {
		least = min(least, f.Significance())
	}
	return least
}

// supported returns the exposure up to which the references support all fits, with joint confidence.
func (v *Outcome) supported() float64 {
	least := math.Inf(1)
	for i := range v.Fits {
		least = min(least, v.Fits[i].Supported((1-audits.Confidence)/float64(len(v.Fits))))
	}
	return least
}

func (v *Outcome) Note(*audits.Cell) string {
	return v.fitted() + v.support()
}

func (v *Outcome) fitted() string {
	if len(v.Fits) != 1 {
		return fmt.Sprintf("skew-normal fits after %d prefixes; the least KS p is %.2g", len(v.Fits), v.MinP())
	}
	f := v.Fits[0]
	return fmt.Sprintf("skew-normal fit of %d references: location %.4g, scale %.4g, shape %.4g nats; of %d others: KS D %.3g, p %.2g, and %d in the lowest 0.1%%, where %.4g are fitted",
		f.Fitted, f.Location, f.Scale, f.Shape, f.Tested, f.KS, f.Significance(), f.LowestObserved, f.LowestFitted)
}

// support describes the supported exposures, and warns of higher ones.
func (v *Outcome) support() string {
	if len(v.Fits) == 0 {
		return ""
	}
	most := v.supported()
	text := "; the references support no exposure"
	if most > 0 {
		text = fmt.Sprintf("; the references support exposures up to %.1f bits, within half a bit (95%% confidence)", most)
	}
	if highest := exposure.ValueOf(v.Highest); highest > most {
		text += fmt.Sprintf("; higher ones, as the highest of %.1f bits, hold only if the distribution is skew-normal there, which their standard errors take for granted", highest)
	}
	return text
}

// Figure implements audits.Figured: the paper's Figure 3, if all canaries share a prefix.
func (v *Outcome) Figure(c *audits.Cell) *audits.Figure {
	if len(v.Fits) != 1 {
		return nil
	}
	fit := v.Fits[0]
	h := fit.Histogram
	f := &audits.Figure{
		Name: "Log-perplexities and the fitted distribution", Title: "references by log-perplexity in nats",
		About: "Bars count random sequences by their log-perplexity in nats; the line is the skew-normal distribution that was fitted to half of them. " +
			"A dot is a canary, in grey one that is not in the training data: the further left of the bars, the more it is exposed.",
	}
	f.X.Title, f.Y.Title, f.Filled, f.Grey = "log-perplexity (nats)", "random sequences", "canary in the training data", "canary held back"
	f.X.Min = h.From
	per := h.Width * float64(fit.Fitted+fit.Tested)
	for i, n := range h.Counts {
		from := h.From + float64(i)*h.Width
		f.Bars = append(f.Bars, audits.Bar{From: from, To: from + h.Width, Y: float64(n)})
		f.Y.Max = max(f.Y.Max, float64(n))
	}
	for i := range 4 * len(h.Counts) {
		x := h.From + (float64(i)+0.5)*h.Width/4
		y := per * math.Exp(fit.LogDensity(x))
		f.Line = append(f.Line, audits.Point{X: x, Y: y})
		f.Y.Max = max(f.Y.Max, y)
	}
	f.X.Max = h.From + h.Width*float64(len(h.Counts))
	for i := range c.Canaries {
		canary := &c.Canaries[i]
		for _, o := range canary.Outcomes {
			if o, ok := o.(*CanaryOutcome); ok && o.LogPerplexity != nil {
				f.X.Min, f.X.Max = min(f.X.Min, *o.LogPerplexity), max(f.X.Max, *o.LogPerplexity)
				f.Dots = append(f.Dots, audits.Dot{X: *o.LogPerplexity, Filled: canary.Insertions > 0, Grey: canary.Insertions == 0, About: fmt.Sprintf("%s: %s; %s", strings.Join(canary.Words, " "), readable.Count(canary.Insertions, "copy"), o.Exposed().Text)})
			}
		}
	}
	return f
}

// CanaryOutcome is the fitted exposure of a canary. All fields are null without the audit.
type CanaryOutcome struct {
	Exposure      *float64 `json:"fitted_exposure" doc:"exposure of the canary by the fitted distribution, in bits"`
	ExposureSE    *float64 `json:"fitted_exposure_se" doc:"standard error of fitted_exposure, in bits"`
	LogPerplexity *float64 `json:"fitted_log_perplexity" doc:"log-perplexity of the canary after the prefix of the fit, in nats"`
	References    *int64   `json:"fitted_references_at_or_below" doc:"fitted references at or below the canary's log-perplexity; with few, fitted_exposure is extrapolated"`
	// P is Fit.Significance.
	P *float64 `json:"fitted_ks_p" doc:"p-value of the Kolmogorov-Smirnov test of the fit that the canary has"`
}

func (e *Estimate) CanaryOutcome() CanaryOutcome {
	return CanaryOutcome{&e.Exposure, &e.Error, &e.LogPerplexity, &e.Support, new(e.Fit.Significance())}
}

func (o *CanaryOutcome) Exposed() *exposure.Exposure {
	if o.Exposure == nil {
		return nil
	}
	return &exposure.Exposure{
		Basis: exposure.Fitted, Bits: *o.Exposure, Error: *o.ExposureSE, Support: *o.References, Memorized: *o.References == 0,
		Text: fmt.Sprintf("fitted exposure %.1f bits (standard error %.2f)", *o.Exposure, *o.ExposureSE),
	}
}
