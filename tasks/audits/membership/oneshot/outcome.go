package oneshot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "one_shot",
	Legend: "Estimated epsilon: an estimate with its standard error, not a bound, from canary clients that took part and others that did not, by the " +
		"final model or by the updates of all rounds.",
	Power:         audits.Powered(power),
	Kinds:         []tasks.Kind{Clients, Estimator, ReportEstimator},
	Models:        audits.Anything,
	Pairs:         audits.EverySecret,
	ByProgram:     true,
	ByTrainer:     true,
	OfPrivacy:     true,
	AtEnd:         true,
	OutcomeBlob:   OutcomeBlob,
	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Client) },
	Measures: slices.Concat(
		estimated("epsilon_estimate_final", "estimated epsilon, final", final),
		estimated("epsilon_estimate_all_iterates", "estimated epsilon, all rounds", allIterates),
		audits.Columns[Outcome]("one_shot_", "delta", "neighbouring", "unit", "canaries", "unseen", "dimension"),
		cosines("one_shot_final", final, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_largest", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_unseen", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Unseen }),
	),
	Canary: audits.Columns[Client]("one_shot_", "seen", "final_cosine", "largest_cosine"),
})

func final(v *Outcome) *empirical.Estimate       { return v.Final }
func allIterates(v *Outcome) *empirical.Estimate { return v.AllIterates }

func estimated(name, header string, of func(*Outcome) *empirical.Estimate) []audits.Measure {
	return audits.Within(of,
		audits.Measure{
			Name: name, Of: audits.Of(func(e *empirical.Estimate) float64 { return e.Epsilon }),
			Header: header, Text: audits.Of(func(e *empirical.Estimate) string { return onerun.EstimateText(e.Epsilon, e.StandardError) }), Optional: true, Scale: audits.Plain, Digits: 2,
		},
		audits.Measure{Name: name + "_se", Of: audits.Of(func(e *empirical.Estimate) float64 { return e.StandardError })},
	)
}

func cosines(name string, of func(*Outcome) *empirical.Estimate, some func(*empirical.Estimate) *empirical.Normal) []audits.Measure {
	return audits.Within(of,
		audits.Measure{Name: name + "_mean", Of: audits.Of(func(e *empirical.Estimate) float64 { return some(e).Mean })},
		audits.Measure{Name: name + "_deviation", Of: audits.Of(func(e *empirical.Estimate) float64 { return some(e).Deviation })},
	)
}

// Outcome holds one or two estimates of epsilon, and their evidence.
type Outcome struct {
	// Canaries is the number of clients of the training, Unseen the number of other directions.
	Canaries int `json:"canaries"`
	Unseen   int `json:"unseen,omitempty"`
	// Dimension is the number of trained parameters.
	Dimension    int                  `json:"dimension"`
	Delta        float64              `json:"delta"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Reported reports whether an external training sent the canaries and reported the cosines.
	Reported bool `json:"told,omitempty"`
	// Final is the estimate from the change of the model, AllIterates from the noised mean updates of all
	// rounds. Each may be nil.
	Final       *empirical.Estimate `json:"final,omitempty"`
	AllIterates *empirical.Estimate `json:"all_iterates,omitempty"`
	// Clients are the canaries, followed by the unseen directions.
	Clients []Client `json:"clients,omitempty"`
}

// Client is a canary of the audit.
type Client struct {
	// Seen canaries took part as clients.
	Seen bool `json:"seen"`
	// FinalCosine is the cosine with the change of the model, LargestCosine the largest with the updates of
	// all rounds.
	FinalCosine   *float64 `json:"final_cosine,omitempty"`
	LargestCosine *float64 `json:"largest_cosine,omitempty"`
}

func (v *Outcome) own() []audits.OwnCanary {
	return lists.Make(len(v.Clients), func(i int) audits.OwnCanary { return audits.OwnCanary{CanaryOutcome: &v.Clients[i]} })
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	var found []string
	for _, one := range []struct {
		estimate *empirical.Estimate
		by       string
	}{{v.Final, "by the final model"}, {v.AllIterates, "by the updates of all rounds"}} {
		if e := one.estimate; e != nil {
			found = append(found, fmt.Sprintf("%s %s (standard error %s)", privacy.Epsilon(e.Epsilon), one.by, privacy.Epsilon(e.StandardError)))
		}
	}
	return fmt.Sprintf("one-shot audit: epsilon is estimated, not bounded, as %s, at delta %g (%s, unit %s), from %d canary clients %s%s",
		strings.Join(found, " and "), v.Delta, v.Neighbouring, v.Unit, v.Canaries, v.among(), v.beside(c.Privacy))
}

func (v *Outcome) among() string {
	if v.Reported {
		return "that the command says it has sent, and cosines that it has measured"
	}
	return "among the users"
}

func (v *Outcome) beside(proved *privacy.Report) string {
	switch {
	case proved == nil:
		return "; nothing is proved of this training"
	case proved.Neighbouring == privacy.ReplaceOne:
		return fmt.Sprintf("; epsilon_proved %s is about another change, %s", proved.EpsilonProved, proved.Neighbouring)
	}
	return fmt.Sprintf("; epsilon_proved is %s", proved.EpsilonProved)
}

// certain is the number of standard errors that a find is above 0: one-sided, 95%.
const certain = 1.645

// trials is the number of simulated audits: the standard error of a power is at most 5%. An estimate takes a
// millisecond.
const trials = 100

// power returns the power of the estimate if the statistic of each canary client is normal, and shifted from
// that of an unseen direction as by the Gaussian mechanism with the true epsilon.
func power(f *Fields, _ *audits.Setting, _ *Outcome) []audits.Statement {
	o := f.OneShot
	return []audits.Statement{{
		Finds:   "an estimate is certainly above 0, by 1.645 standard errors",
		Leak:    audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Max: 100},
		Sizes:   []audits.Size{audits.FieldSize(path+".canaries", "canary client", o.Canaries)},
		Nothing: audits.From(func(v *Outcome) bool { return !found(v.Final) && !found(v.AllIterates) }),
		Power: audits.Simulated(trials, 0, func(sizes []int, leak float64) func(*rand.Rand) bool {
			shift := empirical.GaussianShift(leak, o.Delta)
			return func(rng *rand.Rand) bool { return found(o.simulate(sizes[0], shift, rng)) }
		}, func([]int, float64) func(bool) bool { return func(found bool) bool { return found } }),
	}}
}

// simulate estimates by n canaries, from all rounds if the audit has no estimate from the final model.
func (o *Block) simulate(n int, shift float64, rng *rand.Rand) *empirical.Estimate {
	draw := func(n int, mean, deviation float64) []float64 {
		return lists.Make(n, func(int) float64 { return deviation * (mean + rng.NormFloat64()) })
	}
	var e empirical.Estimate
	var err error
	if o.Statistic == AllIterates {
		e, err = empirical.AllIterates(draw(n, shift, 1), draw(o.Unseen, 0, 1), o.Delta)
	} else {
		d := empirical.MinPerCanary * max(n, empirical.MinDimension) // the estimate does not depend on it
		e, err = empirical.FinalIterate(draw(n, shift, 1/math.Sqrt(float64(d))), d, o.Delta)
	}
	if err != nil { // too few values to fit
		return nil
	}
	return &e
}

// found reports whether an estimate is certainly above 0.
func found(e *empirical.Estimate) bool {
	return e != nil && e.Epsilon-certain*e.StandardError > 0
}
