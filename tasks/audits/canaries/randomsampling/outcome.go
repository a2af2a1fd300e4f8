package randomsampling

import (
	"fmt"
	"math"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
)

// Audit is random sampling.
var Audit = audits.Description{
	Name: "random_sampling",
	Legend: "RS, random sampling: the canary is more likely than every random sequence that it was compared with. \"Lowest\" is the rarest " +
		"configuration that was memorized: the share of users that carry a canary, and of their examples that it replaces.",
	New: func() audits.Fields { return new(Fields) },
	Limits: []audits.Limit{audits.CountLimit("random_sampling_memorized", "limits the canaries memorized by random sampling.",
		func(v *Outcome) int { return v.Memorized }, byChance)},
	Kinds:              []tasks.Kind{Kind, Summary, Scored},
	ByScores:           true,
	ByProgram:          true,
	Pairs:              audits.EverySecret,
	OutcomeBlob:        audits.OutcomeBlob,
	CanaryOutcomesBlob: audits.CanaryOutcomesBlob,
	Outcome:            func() audits.Outcome { return new(Outcome) },
	CanaryOutcome:      func() audits.CanaryOutcome { return new(CanaryOutcome) },
	Measures: slices.Concat([]audits.Measure{
		{
			Name: "random_sampling_memorized", Of: audits.Of(func(v *Outcome) int { return v.Memorized }),
			Header: "RS memorized", Leading: true, Scale: audits.Plain, Among: "random_sampling_of", Canary: "memorized",
		},
		{Name: "random_sampling_of", Of: audits.Of(func(v *Outcome) int { return v.Of })},
		{Name: "references", Of: audits.Of(func(v *Outcome) int { return v.References })},
	}, audits.Lowest("random_sampling", audits.Measure{Header: "RS lowest (p_u, p_e)", Leading: true}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "exposure", Paired: true, Place: 1, Drawn: "mean exposure of canaries, bits", Scale: audits.Plain},
		audits.Measure{Name: "memorized", Paired: true, Drawn: "canaries memorized by random sampling, %", Scale: audits.Percent},
	),
	Curves: []audits.Curve{{
		Figure: audits.MemorizedFigure, Name: "random sampling", Metric: "random_sampling_memorized",
		Most: func(v audits.Outcome) float64 { return float64(v.(*Outcome).Of) },
	}},
}

// Outcome counts the canaries of rank 1.
type Outcome struct {
	Memorized  int                   `json:"memorized"`
	Of         int                   `json:"of"`
	References int                   `json:"references"`
	Lowest     *audits.Configuration `json:"lowest"`
}

// MostExposure implements exposure.Bounded.
func (v *Outcome) MostExposure() float64 { return math.Log2(float64(v.References)) }

// CanaryOutcome is what random sampling says of a canary; all is null where it was not asked
// for.
type CanaryOutcome struct {
	// Rank among the references, in RankExact whether it was counted or estimated.
	Rank          *int64   `json:"rank"`
	RankExact     *bool    `json:"rank_exact"`
	LogPerplexity *float64 `json:"log_perplexity"`
	// Exposure in bits; ExposureSE is its standard error where the rank was
	// estimated. Censored: the rank is 1, so the exposure is only a lower bound.
	Exposure         *float64 `json:"exposure"`
	ExposureSE       *float64 `json:"exposure_se"`
	ExposureCensored *bool    `json:"exposure_censored"`
	Memorized        *bool    `json:"memorized"`
}

// CanaryOutcome is what a rank among so many references says.
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

// Bits implements exposure.CanaryOutcome.
func (o *CanaryOutcome) Bits() (bits float64, known bool) {
	if o.Exposure == nil {
		return 0, false
	}
	return *o.Exposure, true
}

// Basis implements exposure.CanaryOutcome.
func (o *CanaryOutcome) Basis() exposure.Basis { return exposure.Sampled }

// Error implements exposure.CanaryOutcome. The number of references at or below the canary is
// Poisson but for what is left of the set, so that a counted rank has an error too.
func (o *CanaryOutcome) Error() float64 {
	if o.ExposureSE != nil {
		return *o.ExposureSE
	}
	return 1 / (math.Ln2 * math.Sqrt(float64(o.Support())))
}

// Support implements exposure.CanaryOutcome.
func (o *CanaryOutcome) Support() int64 {
	if o.Rank == nil {
		return 0
	}
	return *o.Rank - 1
}

// Explain implements exposure.CanaryOutcome.
func (o *CanaryOutcome) Explain() string {
	atLeast := ""
	if o.ExposureCensored != nil && *o.ExposureCensored {
		atLeast = "at least "
	}
	text := fmt.Sprintf("exposure %s%.1f bits", atLeast, *o.Exposure)
	if o.Rank != nil {
		text += fmt.Sprintf(", rank %d", *o.Rank)
	}
	if o.ExposureSE != nil {
		text += fmt.Sprintf(" (estimated, standard error %.2f bits)", *o.ExposureSE)
	}
	return text
}

// IsMemorized implements exposure.CanaryOutcome.
func (o *CanaryOutcome) IsMemorized() bool { return o.Memorized != nil && *o.Memorized }
