package randomsampling

import (
	"fmt"
	"math"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name: "random_sampling",
	Legend: "RS, random sampling: the canary is more likely than every random sequence that it was compared with. \"Rarest\" is the rarest " +
		"configuration that was memorized: the share of users that carry a canary, and of their examples that it replaces.",
	Limits:    []audits.Limit{memorized.Limit()},
	Power:     memorized.Power,
	Kinds:     []tasks.Kind{Kind, Summary, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Among: func(v audits.Outcome, c audits.CanaryOutcome) (int, bool) {
		outcome, measured := v.(*Outcome)
		canary, of := c.(*CanaryOutcome)
		if !measured || !of || canary.Rank == nil {
			return 0, false
		}
		return outcome.References, true
	},
	Measures: slices.Concat(memorized.Measures(), audits.Columns[Outcome]("", "references"),
		audits.Lowest("random_sampling", audits.Measure{Header: "RS rarest (p_u, p_e)", Leading: true}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "exposure", Paired: true, Place: 1, Drawn: "mean exposure of canaries, bits", Scale: audits.Plain},
		audits.Measure{Name: "memorized", Paired: true, Drawn: "canaries memorized by random sampling, %", Scale: audits.Percent},
	),
})

var memorized = audits.CountOf[Outcome]{
	Measure: audits.Measure{Name: "random_sampling_memorized", Header: "RS memorized", Leading: true, Among: "random_sampling_of", Canary: "memorized", Curve: canaries.Memorized("random sampling")},
	Doc:     "Canaries memorized by random sampling.",
	Counted: func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	References: func(s *audits.Setting) audits.Size {
		f, _ := audits.FieldsOf[*Fields](s)
		return audits.FieldSize(path+".references", "reference", f.RandomSampling.References)
	},
	ByChance: func(_ *audits.Setting, k, n, references int) float64 { return firstByChance(k+1, n, references) },
}

// Outcome counts the canaries of rank 1.
type Outcome struct {
	Memorized  int                   `json:"memorized"`
	Of         int                   `json:"of"`
	References int                   `json:"references"`
	Lowest     *audits.Configuration `json:"lowest"`
}

func (v *Outcome) MaxExposure() float64 { return math.Log2(float64(v.References)) }

// CanaryOutcome is the rank of a canary. All fields are null without the audit.
type CanaryOutcome struct {
	// Rank is the rank among the references. RankExact: counted, not estimated.
	Rank          *int64   `json:"rank"`
	RankExact     *bool    `json:"rank_exact"`
	LogPerplexity *float64 `json:"log_perplexity"`
	// Exposure is in bits. ExposureSE is its standard error if the rank was estimated. Censored: the rank is
	// 1, so the exposure is a lower bound.
	Exposure         *float64 `json:"exposure"`
	ExposureSE       *float64 `json:"exposure_se"`
	ExposureCensored *bool    `json:"exposure_censored"`
	Memorized        *bool    `json:"memorized"`
}

func (r Rank) CanaryOutcome(references int) CanaryOutcome {
	exposure, memorized := r.Exposure(references), r.Rank == 1
	o := CanaryOutcome{
		Rank: &r.Rank, RankExact: &r.Exact, LogPerplexity: &r.LogPerplexity,
		Exposure: &exposure, ExposureCensored: &memorized, Memorized: &memorized,
	}
	if !r.Exact {
		o.ExposureSE = &r.ExposureError
	}
	return o
}

// Exposed implements exposure.Exposed. The number of references at or below the canary is about Poisson, so
// that a counted rank has an error too.
func (o *CanaryOutcome) Exposed() *exposure.Exposure {
	if o.Exposure == nil {
		return nil
	}
	e := &exposure.Exposure{Basis: exposure.Sampled, Bits: *o.Exposure, Memorized: o.Memorized != nil && *o.Memorized}
	atLeast := ""
	if o.ExposureCensored != nil && *o.ExposureCensored {
		atLeast = "at least "
	}
	e.Text = fmt.Sprintf("exposure %s%.1f bits", atLeast, e.Bits)
	if o.Rank != nil {
		e.Support = *o.Rank - 1
		e.Text += fmt.Sprintf(", rank %d", *o.Rank)
	}
	e.Error = 1 / (math.Ln2 * math.Sqrt(float64(e.Support)))
	if o.ExposureSE != nil {
		e.Error = *o.ExposureSE
		e.Text += fmt.Sprintf(" (estimated, standard error %.2f bits)", e.Error)
	}
	return e
}
