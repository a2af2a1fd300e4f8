package skewnormal

import (
	"fmt"
	"math"
	"strings"

	"coalmine/internal/readable"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name: "skew_normal",
	Legend: "Fitted exposure: the highest exposure of an inserted canary in bits, by a skew-normal distribution fitted to the log-perplexities of random " +
		"sequences. KS p: the p-value of the Kolmogorov-Smirnov test on other sequences; a small value means that the distribution does not fit.",
	Kinds: []tasks.Kind{Kind, Summary},
	Pairs: audits.EverySecret,
	Measures: []audits.Measure{
		{
			Name: "skew_normal_highest_exposure", Of: audits.Of(func(v *Outcome) *float64 { return v.Highest }), Header: "fitted exposure", Scale: audits.Plain, Digits: 1,
			Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "skew-normal fit"},
		},
		{Name: "skew_normal_fits", Of: audits.Of(func(v *Outcome) int { return len(v.Fits) })},
		{Name: "skew_normal_least_ks_p", Of: audits.Of((*Outcome).MinP), Header: "KS p", Text: audits.Of(func(v *Outcome) string { return fmt.Sprintf("%.2g", v.MinP()) })},
	},
	Canary: audits.Members[CanaryOutcome](audits.Measure{Name: "fitted_exposure", Paired: true}),
})

// Outcome has a fit for each prefix of the canaries.
type Outcome struct {
	// Highest is the highest fitted exposure of an inserted canary, in bits; nil if none was inserted.
	Highest *float64 `json:"highest,omitempty"`
	Fits    []Fit    `json:"fits"`
}

func (v *Outcome) MinP() float64 {
	least := 1.0
	for _, f := range v.Fits {
		least = min(least, f.Significance())
	}
	return least
}

// supported is the exposure up to which the references support all fits, with joint confidence.
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
	// Exposure is in bits, with its standard error.
	Exposure   *float64 `json:"fitted_exposure"`
	ExposureSE *float64 `json:"fitted_exposure_se"`
	// LogPerplexity is the log-perplexity after the prefix, in nats.
	LogPerplexity *float64 `json:"fitted_log_perplexity"`
	// References is the number of fitted references at or below the canary: with few, the exposure is
	// extrapolated.
	References *int64 `json:"fitted_references_at_or_below"`
	// P is Fit.Significance.
	P *float64 `json:"fitted_ks_p"`
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
