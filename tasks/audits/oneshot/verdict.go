package oneshot

import (
	"fmt"
	"strings"

	"coalmine/privacy"
	"coalmine/privacy/oneshot"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is the one-shot audit.
var Audit = audits.Description{
	Name: "one_shot",
	Legend: "Estimated epsilon: how well canary clients that took part are told from such that did not, by the final model or by the updates of " +
		"all rounds; an estimate with its standard error, and no bound.",
	New:         func() audits.Fields { return new(Fields) },
	Kinds:       []tasks.Kind{Clients, Estimator, ToldEstimator},
	Models:      audits.Anything,
	Pairs:       audits.EverySecret,
	ByProgram:   true,
	ByTrainer:   true,
	OfPrivacy:   true,
	AtEnd:       true,
	VerdictBlob: VerdictBlob,
	Verdict:     func() audits.Verdict { return new(Verdict) },
	Outcome:     func() audits.Outcome { return new(Client) },
	Columns: []audits.Column{
		{Header: "estimated epsilon, final", Optional: true, Measure: audits.OldMeasure{Name: "epsilon_estimate_final", Digits: 2}},
		{Header: "estimated epsilon, all rounds", Optional: true, Measure: audits.OldMeasure{Name: "epsilon_estimate_all_iterates", Digits: 2}},
	},
}

// Verdict is one estimate of epsilon or two, and all that they rest on.
type Verdict struct {
	// Canaries are clients of the training, Unseen directions none.
	Canaries int `json:"canaries"`
	Unseen   int `json:"unseen,omitempty"`
	// Dimension is the number of parameters that clients train.
	Dimension int `json:"dimension"`
	// Delta is that of the estimates.
	Delta        float64              `json:"delta"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Told says that the training, which is not ours, has sent the canaries and measured the
	// cosines.
	Told bool `json:"told,omitempty"`
	// Final is by the change of the model, AllIterates by the noised mean updates of all
	// rounds; nil where it was not asked for.
	Final       *oneshot.Estimate `json:"final,omitempty"`
	AllIterates *oneshot.Estimate `json:"all_iterates,omitempty"`
	// Clients are the canaries, and behind them the unseen directions.
	Clients []Client `json:"clients,omitempty"`
}

// Client is a canary of the audit.
type Client struct {
	// Seen canaries were those of clients.
	Seen bool `json:"seen"`
	// FinalCosine is that with the change of the model, LargestCosine the largest of those with
	// the updates of all rounds.
	FinalCosine   *float64 `json:"final_cosine,omitempty"`
	LargestCosine *float64 `json:"largest_cosine,omitempty"`
}

// Row implements audits.Outcome.
func (c *Client) Row() any { return clientRow{&c.Seen, c.FinalCosine, c.LargestCosine} }

type clientRow struct {
	Seen    *bool    `parquet:"one_shot_seen"`
	Final   *float64 `parquet:"one_shot_final_cosine"`
	Largest *float64 `parquet:"one_shot_largest_cosine"`
}

// Own implements audits.Lister.
func (v *Verdict) Own() []audits.Own {
	var own []audits.Own
	for i := range v.Clients {
		own = append(own, audits.Own{Outcome: &v.Clients[i]})
	}
	return own
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string { return []string{text(v.Final), text(v.AllIterates)} }

func text(e *oneshot.Estimate) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("~%s (+-%s)", privacy.Epsilon(e.Epsilon), privacy.Epsilon(e.StandardError))
}

// Note implements audits.Noter. An epsilon is never bare.
func (v *Verdict) Note(c *audits.Cell) string {
	var found []string
	for _, one := range []struct {
		estimate *oneshot.Estimate
		by       string
	}{{v.Final, "by the final model"}, {v.AllIterates, "by the updates of all rounds"}} {
		if e := one.estimate; e != nil {
			found = append(found, fmt.Sprintf("%s %s (standard error %s)", privacy.Epsilon(e.Epsilon), one.by, privacy.Epsilon(e.StandardError)))
		}
	}
	return fmt.Sprintf("one-shot audit: epsilon is estimated, not bounded, as %s, at delta %g (%s, unit %s), from %d canary clients %s%s",
		strings.Join(found, " and "), v.Delta, v.Neighbouring, v.Unit, v.Canaries, v.among(), v.beside(c.Privacy))
}

// among says where the canaries were.
func (v *Verdict) among() string {
	if v.Told {
		return "that the command says it has sent, and cosines that it has measured"
	}
	return "among the users"
}

// beside says what was proved, and of what.
func (v *Verdict) beside(proved *privacy.Report) string {
	switch {
	case proved == nil:
		return "; nothing is proved of this training"
	case proved.Neighbouring == privacy.ReplaceOne:
		return fmt.Sprintf("; epsilon_proved %s is about another change, %s", proved.EpsilonProved, proved.Neighbouring)
	}
	return fmt.Sprintf("; epsilon_proved is %s", proved.EpsilonProved)
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{Canaries: new(int64(v.Canaries)), Unseen: new(int64(v.Unseen)), Dimension: new(int64(v.Dimension)), Delta: &v.Delta, Neighbouring: string(v.Neighbouring), Unit: v.Unit}
	if e := v.Final; e != nil {
		r.Final, r.FinalError, r.FinalMean, r.FinalDeviation = &e.Epsilon, &e.StandardError, &e.Seen.Mean, &e.Seen.Deviation
	}
	if e := v.AllIterates; e != nil {
		r.All, r.AllError, r.AllMean, r.AllDeviation = &e.Epsilon, &e.StandardError, &e.Seen.Mean, &e.Seen.Deviation
		r.UnseenMean, r.UnseenDeviation = &e.Unseen.Mean, &e.Unseen.Deviation
	}
	return r
}

type row struct {
	Final           *float64 `parquet:"epsilon_estimate_final"`
	FinalError      *float64 `parquet:"epsilon_estimate_final_se"`
	All             *float64 `parquet:"epsilon_estimate_all_iterates"`
	AllError        *float64 `parquet:"epsilon_estimate_all_iterates_se"`
	Delta           *float64 `parquet:"one_shot_delta"`
	Neighbouring    string   `parquet:"one_shot_neighbouring"`
	Unit            string   `parquet:"one_shot_unit"`
	Canaries        *int64   `parquet:"one_shot_canaries"`
	Unseen          *int64   `parquet:"one_shot_unseen"`
	Dimension       *int64   `parquet:"one_shot_dimension"`
	FinalMean       *float64 `parquet:"one_shot_final_mean"`
	FinalDeviation  *float64 `parquet:"one_shot_final_deviation"`
	AllMean         *float64 `parquet:"one_shot_largest_mean"`
	AllDeviation    *float64 `parquet:"one_shot_largest_deviation"`
	UnseenMean      *float64 `parquet:"one_shot_unseen_mean"`
	UnseenDeviation *float64 `parquet:"one_shot_unseen_deviation"`
}
