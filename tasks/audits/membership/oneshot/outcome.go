package oneshot

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "one_shot",
	Legend: "Estimated epsilon: an estimate with its standard error, not a bound, from canary clients that took part and others that did not, by the " +
		"final model or by the updates of all rounds.",
	Power:         power,
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
		[]audits.Measure{
			{Name: "one_shot_delta", Of: audits.Of(func(v *Outcome) float64 { return v.Delta })},
			{Name: "one_shot_neighbouring", Of: audits.Of(func(v *Outcome) privacy.Neighbouring { return v.Neighbouring })},
			{Name: "one_shot_unit", Of: audits.Of(func(v *Outcome) string { return v.Unit })},
			{Name: "one_shot_canaries", Of: audits.Of(func(v *Outcome) int { return v.Canaries })},
			{Name: "one_shot_unseen", Of: audits.Of(func(v *Outcome) int { return v.Unseen })},
			{Name: "one_shot_dimension", Of: audits.Of(func(v *Outcome) int { return v.Dimension })},
		},
		cosines("one_shot_final", final, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_largest", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_unseen", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Unseen }),
	),
	Canary: []audits.Measure{
		{Name: "one_shot_seen", Of: audits.Of(func(c *Client) bool { return c.Seen })},
		{Name: "one_shot_final_cosine", Of: audits.Of(func(c *Client) *float64 { return c.FinalCosine })},
		{Name: "one_shot_largest_cosine", Of: audits.Of(func(c *Client) *float64 { return c.LargestCosine })},
	},
})

func final(v *Outcome) *empirical.Estimate       { return v.Final }
func allIterates(v *Outcome) *empirical.Estimate { return v.AllIterates }

func estimated(name, header string, of func(*Outcome) *empirical.Estimate) []audits.Measure {
	return audits.Within(of,
		audits.Measure{
			Name: name, Of: audits.Of(func(e *empirical.Estimate) float64 { return e.Epsilon }),
			Header: header, Text: audits.Of(text), Optional: true, Scale: audits.Plain, Digits: 2,
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

func (v *Outcome) own() []audits.Own {
	var own []audits.Own
	for i := range v.Clients {
		own = append(own, audits.Own{CanaryOutcome: &v.Clients[i]})
	}
	return own
}

func text(e *empirical.Estimate) string {
	return fmt.Sprintf("~%s (+-%s)", privacy.Epsilon(e.Epsilon), privacy.Epsilon(e.StandardError))
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
