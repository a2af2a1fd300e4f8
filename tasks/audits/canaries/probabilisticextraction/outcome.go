package probabilisticextraction

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/datasets"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name: "probabilistic_extraction",
	Legend: "Sampled (n, p): n samples of the model after a canary's beginning contain the canary with probability p or more. Greedy: greedy decoding " +
		"gives the canary.",
	Limits:     []audits.Limit{extractable.Limit()},
	Power:      extractable.Power,
	Kinds:      []tasks.Kind{Kind},
	EveryRound: true,
	Panels:     audits.From((*Outcome).panels),
	Pairs:      audits.TargetSecrets,
	Measures: slices.Concat(slices.Insert(extractable.Measures(), 1, audits.Measure{
		Name: "greedy_extractable", Of: audits.Of(func(v *Outcome) int { return v.Greedy }),
		Header: "greedy", Scale: audits.Plain, Among: "probabilistic_of", Canary: "greedy_extractable", Curve: canaries.Memorized("greedy"),
	}), audits.Columns[Outcome]("probabilistic_", "queries", "chance", "temperature"), []audits.Measure{
		{Name: "probabilistic_top_k", Of: audits.Of(func(v *Outcome) *int { return audits.NonZero(v.TopK) })},
	}, audits.Lowest("probabilistic", audits.Measure{}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](audits.Measure{Name: "probabilistic_extractable", Paired: true}, audits.Measure{Name: "greedy_extractable", Paired: true}),
})

var extractable = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "probabilistic_extractable", Header: "sampled (n, p)", Text: audits.Of((*Outcome).sampled),
		Among: "probabilistic_of", Canary: "probabilistic_extractable", Curve: canaries.Memorized("sampled"),
	},
	Doc:      "Canaries extractable by the queries of audit.probabilistic_extraction with its chance.",
	Counted:  func(v *Outcome) (count, total int) { return v.Extractable, v.Of },
	ByChance: byChance,
}

// Outcome counts the inserted canaries that sampling and greedy decoding extract.
type Outcome struct {
	Extractable int     `json:"extractable"`
	Greedy      int     `json:"greedy"`
	Of          int     `json:"of"`
	Queries     int     `json:"queries"`
	Chance      float64 `json:"chance"`
	models.Sampling
	Lowest *audits.Configuration `json:"lowest"`
	Curves []Curve               `json:"curves"`
}

// Curve is the share of the canaries of one configuration that n samples extract with the chance p,
// for several n and p.
type Curve struct {
	// Configuration is nil for held-back canaries.
	Configuration *audits.Configuration `json:"configuration"`
	Canaries      int                   `json:"canaries"`
	Points        []Point               `json:"points"`
}

// Point holds n, and the share at each of Chances.
type Point struct {
	Queries float64   `json:"queries"`
	Shares  []float64 `json:"shares"`
}

// Chances are the p of a curve, and 10^curvePowers its largest n.
var Chances = []float64{0.1, 0.5, 0.9, 0.99, 0.999}

const curvePowers = 12

func (p *Params) judge(placed []datasets.Placement, outcomes []CanaryOutcome) (Outcome, error) {
	sampled, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Extractable })
	if err != nil {
		return Outcome{}, err
	}
	greedy, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Greedy })
	if err != nil {
		return Outcome{}, err
	}
	v := Outcome{
		Extractable: sampled.Memorized, Greedy: greedy.Memorized, Of: sampled.Of, Queries: p.Queries, Chance: p.Chance,
		Sampling: p.Sampling, Lowest: sampled.Lowest,
	}
	v.Curves, err = curves(placed, outcomes)
	return v, err
}

// curves groups the canaries by configuration, in order of first occurrence.
func curves(placed []datasets.Placement, outcomes []CanaryOutcome) ([]Curve, error) {
	var out []Curve
	var of [][]CanaryOutcome
	for i, p := range placed {
		c, err := configuration(&p.Canary)
		if err != nil {
			return nil, tasks.Permanent(err)
		}
		at := slices.IndexFunc(out, func(o Curve) bool {
			return (o.Configuration == nil) == (c == nil) && (c == nil || *c == *o.Configuration)
		})
		if at < 0 {
			at, out, of = len(out), append(out, Curve{Configuration: c}), append(of, nil)
		}
		of[at] = append(of[at], outcomes[i])
	}
	for i := range out {
		out[i].Canaries, out[i].Points = len(of[i]), points(of[i])
	}
	return out, nil
}

// configuration returns nil for a held-back canary.
func configuration(c *datasets.Canary) (*audits.Configuration, error) {
	if c.HeldBack {
		return nil, nil
	}
	of, err := audits.NewConfiguration(c)
	return &of, err
}

// points returns the shares of the canaries that n samples extract, for n of 1, 10, ...
func points(outcomes []CanaryOutcome) []Point {
	out := make([]Point, 0, curvePowers+1)
	for n, power := 1.0, 0; power <= curvePowers; n, power = 10*n, power+1 {
		point := Point{Queries: n}
		for _, chance := range Chances {
			extractable := lists.Count(outcomes, func(o CanaryOutcome) bool {
				return o.LogProbability != nil && Queries(*o.LogProbability, chance) <= n
			})
			point.Shares = append(point.Shares, float64(extractable)/float64(len(outcomes)))
		}
		out = append(out, point)
	}
	return out
}

func (v *Outcome) panels() []*audits.Figure {
	var figures []*audits.Figure
	for _, c := range v.Curves {
		f := &audits.Figure{
			Name: "Extractable by n samples", Title: "share of canaries in % that are extractable by n samples, " + c.of(), Of: c.of(),
			About: "The x axis is n, the number of samples of the model after a canary's beginning; the y axis is the share in % of the canaries of one configuration " +
				"that they contain with probability p or more. The curve of controls shows what n samples give without memorization.",
			X: audits.Axis{Title: "samples drawn", Max: math.Pow(10, curvePowers), Logarithmic: true}, Y: audits.Axis{Title: "canaries extractable (%)", Max: 100},
		}
		for k, chance := range Chances {
			line := audits.Line{Name: fmt.Sprintf("p %v", chance)}
			for _, p := range c.Points {
				line.Points = append(line.Points, audits.Point{X: p.Queries, Y: 100 * p.Shares[k]})
			}
			f.Lines = append(f.Lines, line)
		}
		figures = append(figures, f)
	}
	return figures
}

func (c *Curve) of() string {
	if c.Configuration == nil {
		return fmt.Sprintf("canaries held back (%d)", c.Canaries)
	}
	return fmt.Sprintf("canaries inserted %s (%d)", c.Configuration, c.Canaries)
}

func (v *Outcome) sampled() string {
	return fmt.Sprintf("%d/%d (%d, %v)", v.Extractable, v.Of, v.Queries, v.Chance)
}

// CanaryOutcome is the outcome for a canary. All fields are null without the audit.
type CanaryOutcome struct {
	// LogProbability is the natural logarithm of the probability that a sample after the prefix completes the
	// canary; null if the probability is 0.
	LogProbability *float64 `json:"probabilistic_log_probability"`
	// Queries is the number of samples that contain it with the chance; null above 1.8e308. Extractable
	// reports whether the audit makes at least that number of queries.
	Queries     *float64 `json:"probabilistic_queries"`
	Extractable *bool    `json:"probabilistic_extractable"`
	// Greedy reports whether greedy decoding after the prefix completes the canary.
	Greedy *bool `json:"greedy_extractable"`
	// Prefixes are the outcomes for each length of the prefix.
	Prefixes []After `json:"probabilistic_prefixes"`
}

// After is the outcome after a prefix of some length in words.
type After struct {
	Prefix         int      `json:"prefix"`
	LogProbability *float64 `json:"log_probability"`
	Queries        *float64 `json:"queries"`
	Greedy         bool     `json:"greedy"`
}
