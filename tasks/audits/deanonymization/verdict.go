package deanonymization

import (
	"fmt"
	"strings"

	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is that of the attacks on anonymous updates.
var Audit = audits.Description{
	Name: "deanonymization",
	Legend: "Named AP: the mean over users of the average precision with which the best attack finds the updates of a user's anonymous device, in %, " +
		"and how many times that is what the same scores reach with any other device in its place. Top-1: the share of updates whose user scores highest.",
	New:         func() audits.Fields { return new(Fields) },
	Limits:      func() audits.Limits { return new(Limits) },
	Kinds:       []tasks.Kind{Reidentify, Summary},
	Models:      audits.Anything,
	ByProgram:   true,
	Pairs:       audits.EverySecret,
	AtEnd:       true,
	VerdictBlob: audits.VerdictBlob,
	Verdict:     func() audits.Verdict { return new(Verdict) },
	Columns: []audits.Column{
		{Header: "named by"},
		{Header: "named AP % (x chance)", Measure: audits.OldMeasure{Name: "deanonymization_ap", Percent: true, Digits: 1}},
		{Header: "top-1 %", Measure: audits.OldMeasure{Name: "deanonymization_top1", Percent: true, Digits: 1}},
	},
	Charted: &audits.Charted{Name: "named AP, times chance", Level: 1, Of: factor},
}

// Verdict is what attacks have found.
type Verdict struct {
	// Devices is the number of users who have an anonymous device in what was scored, Items the
	// number of updates, or of their sums.
	Devices int `json:"devices"`
	Items   int `json:"items"`
	// Untaught is the number of users who cannot be named since no update of their shadow
	// device was there to learn from.
	Untaught int `json:"untaught,omitempty"`
	// Confidence of all intervals.
	Confidence float64   `json:"confidence"`
	Attacks    []Outcome `json:"attacks"`
	// AboveBaseline is how far the best trained attack is above the cosine.
	AboveBaseline *Difference `json:"above_baseline,omitempty"`
	// Stages are the ranges of rounds of the matrices.
	Stages []Rounds `json:"stages,omitempty"`
}

// Outcome is what one attack has found.
type Outcome struct {
	Attack attacks.Kind `json:"attack"`
	// Users who can be named, and of whose anonymous devices there are updates: those over
	// whom means are taken.
	Users int `json:"users"`
	// AP is the mean over users of the average precision, in [0, 1]; Chance its mean with the
	// updates of any anonymous device in the place of the user's, and Factor AP over Chance.
	AP             float64          `json:"ap"`
	APInterval     ranking.Interval `json:"ap_interval"`
	Chance         float64          `json:"chance"`
	Factor         float64          `json:"factor"`
	FactorInterval ranking.Interval `json:"factor_interval"`
	// FactorAtLeast is a bound from below that holds for all attacks at once with the
	// confidence.
	FactorAtLeast float64 `json:"factor_at_least"`
	// Share of the updates that are the user's, in the mean over users: what Orekondy et al.
	// 2018 call chance.
	Share float64 `json:"share"`
	// P is the probability of such an AP or a higher one if devices were any user's.
	P    float64 `json:"p"`
	Top1 Top     `json:"top1"`
	Top5 Top     `json:"top5"`
	// Unseen is how well updates of unseen users are told to be those of nobody known.
	Unseen *ClassOutcome `json:"unseen,omitempty"`
	// Learned is the number of updates that the attack was trained on.
	Learned   int              `json:"learned"`
	Validated int              `json:"validated,omitempty"`
	Training  attacks.Training `json:"training,omitzero"`
	// Curve is the precision where 1%, 2%, ... of a user's updates are found, in the mean over
	// users.
	Curve []float64 `json:"curve,omitempty"`
	// Matrix has a row for each stage that the attack was trained on, with a column for each
	// that it was tried on.
	Matrix  [][]Stage     `json:"matrix,omitempty"`
	PerUser []UserOutcome `json:"per_user,omitempty"`
}

// Top is how often the user is among the classes that score highest, beside chance.
type Top struct {
	Count  int     `json:"count"`
	Of     int     `json:"of"`
	Share  float64 `json:"share"`
	Chance float64 `json:"chance"`
}

// ClassOutcome is the average precision of one class.
type ClassOutcome struct {
	AP    float64 `json:"ap"`
	Share float64 `json:"share"`
	Items int     `json:"items"`
}

// Stage is an element of the matrix; all of it is 0 where there was nobody to measure.
type Stage struct {
	Users  int     `json:"users"`
	AP     float64 `json:"ap"`
	Factor float64 `json:"factor"`
}

// UserOutcome is the average precision for one user, and its chance.
type UserOutcome struct {
	User   int     `json:"user"`
	AP     float64 `json:"ap"`
	Chance float64 `json:"chance"`
}

// Difference is how far the AP of an attack is above that of the baseline, over the same users.
type Difference struct {
	Attack   attacks.Kind     `json:"attack"`
	AP       float64          `json:"ap"`
	Interval ranking.Interval `json:"interval"`
}

// Best is the attack with the highest AP, nil without one.
func (v *Verdict) Best() *Outcome {
	var best *Outcome
	for i := range v.Attacks {
		if o := &v.Attacks[i]; o.Users > 0 && (best == nil || o.AP > best.AP) {
			best = o
		}
	}
	return best
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	best := v.Best()
	if best == nil {
		return []string{"-", "-", "-"}
	}
	return []string{best.Attack.Title(), fmt.Sprintf("%.1f (%.1fx)", 100*best.AP, best.Factor), fmt.Sprintf("%.1f", 100*best.Top1.Share)}
}

// Note implements audits.Noter: Table 3 of the paper.
func (v *Verdict) Note(*audits.Cell) string {
	var parts []string
	for _, o := range v.Attacks {
		parts = append(parts, o.text(v.Confidence))
	}
	note := fmt.Sprintf("whose update is it: %d updates of %d anonymous devices; %s", v.Items, v.Devices, strings.Join(parts, "; "))
	if v.Untaught > 0 {
		note += fmt.Sprintf("; %d users can't be named, for no update of their shadow devices was recorded", v.Untaught)
	}
	return note + v.baseline()
}

func (o *Outcome) text(confidence float64) string {
	if o.Users == 0 {
		return o.Attack.Title() + " could name nobody"
	}
	text := fmt.Sprintf("%s: AP %.2f%%, %.2f times chance (%.3g%%; %g%% interval %.2f to %.2f; %.2f times the share of a user's updates), %s, top-1 %.1f%% (chance %.2g%%), top-5 %.1f%% (%.2g%%)",
		o.Attack.Title(), 100*o.AP, o.Factor, 100*o.Chance, 100*confidence, o.FactorInterval.Low, o.FactorInterval.High, o.AP/o.Share, audits.PText(o.P),
		100*o.Top1.Share, 100*o.Top1.Chance, 100*o.Top5.Share, 100*o.Top5.Chance)
	if o.Training.Unfinished() {
		text += audits.LastEpoch(o.Training.Epochs)
	}
	if o.Unseen != nil {
		text += fmt.Sprintf(", of unseen users AP %.1f%% (their share %.1f%%)", 100*o.Unseen.AP, 100*o.Unseen.Share)
	}
	return text
}

// baseline says so where training has gained nothing.
func (v *Verdict) baseline() string {
	d := v.AboveBaseline
	switch {
	case d == nil || d.Interval.Low > 0:
		return ""
	case d.AP == 0:
		return fmt.Sprintf("; the cosine, which needs no training, is as good as the best trained attack, %s", d.Attack.Title())
	case d.Interval.High < 0:
		return fmt.Sprintf("; the cosine, which needs no training, is better than the best trained attack, %s: its AP is %.2f%% higher (%g%% interval %.2f to %.2f)",
			d.Attack.Title(), -100*d.AP, 100*v.Confidence, -100*d.Interval.High, -100*d.Interval.Low)
	}
	return fmt.Sprintf("; the cosine, which needs no training, can't be told from the best trained attack, %s: the attack's AP less the cosine's is %.2f%% (%g%% interval %.2f to %.2f)",
		d.Attack.Title(), 100*d.AP, 100*v.Confidence, 100*d.Interval.Low, 100*d.Interval.High)
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{}
	if best := v.Best(); best != nil {
		r = row{
			Attack: string(best.Attack), Users: new(int64(best.Users)), Items: new(int64(v.Items)), AP: &best.AP, APLow: &best.APInterval.Low, APHigh: &best.APInterval.High,
			Chance: &best.Chance, Share: &best.Share, Factor: &best.Factor, FactorLow: &best.FactorInterval.Low, FactorHigh: &best.FactorInterval.High, P: &best.P,
			Top1: &best.Top1.Share, Top1Chance: &best.Top1.Chance, Top5: &best.Top5.Share, Top5Chance: &best.Top5.Chance,
			Stages: best.stages(),
		}
	}
	for i := range v.Attacks {
		if o := &v.Attacks[i]; o.Users > 0 {
			r.of(o)
		}
	}
	return r
}

// of sets the columns of an attack's own.
func (r *row) of(o *Outcome) {
	switch o.Attack {
	case attacks.MLP:
		r.MLP, r.MLPFactor = &o.AP, &o.Factor
	case attacks.SVM:
		r.SVM, r.SVMFactor = &o.AP, &o.Factor
	case attacks.KNN:
		r.KNN, r.KNNFactor = &o.AP, &o.Factor
	case attacks.Cosine:
		r.Cosine, r.CosineFactor = &o.AP, &o.Factor
	}
}

type row struct {
	Attack       string   `parquet:"deanonymization_attack"`
	Users        *int64   `parquet:"deanonymization_users"`
	Items        *int64   `parquet:"deanonymization_updates"`
	AP           *float64 `parquet:"deanonymization_ap"`
	APLow        *float64 `parquet:"deanonymization_ap_low"`
	APHigh       *float64 `parquet:"deanonymization_ap_high"`
	Chance       *float64 `parquet:"deanonymization_chance"`
	Share        *float64 `parquet:"deanonymization_share"`
	Factor       *float64 `parquet:"deanonymization_factor"`
	FactorLow    *float64 `parquet:"deanonymization_factor_low"`
	FactorHigh   *float64 `parquet:"deanonymization_factor_high"`
	P            *float64 `parquet:"deanonymization_p"`
	Top1         *float64 `parquet:"deanonymization_top1"`
	Top1Chance   *float64 `parquet:"deanonymization_top1_chance"`
	Top5         *float64 `parquet:"deanonymization_top5"`
	Top5Chance   *float64 `parquet:"deanonymization_top5_chance"`
	MLP          *float64 `parquet:"deanonymization_mlp_ap"`
	MLPFactor    *float64 `parquet:"deanonymization_mlp_factor"`
	SVM          *float64 `parquet:"deanonymization_svm_ap"`
	SVMFactor    *float64 `parquet:"deanonymization_svm_factor"`
	KNN          *float64 `parquet:"deanonymization_knn_ap"`
	KNNFactor    *float64 `parquet:"deanonymization_knn_factor"`
	Cosine       *float64 `parquet:"deanonymization_cosine_ap"`
	CosineFactor *float64 `parquet:"deanonymization_cosine_factor"`
	// Stages are the factors of the best attack's matrix: "4.1 2.5; 2.2 3.9".
	Stages *string `parquet:"deanonymization_stages"`
}

// AttackRows implements audits.Attacked: Table 3 of the paper.
func (v *Verdict) AttackRows() (rows []audits.Attack) {
	for i := range v.Attacks {
		o := &v.Attacks[i]
		if o.Users == 0 {
			continue
		}
		rows = append(rows, audits.Attack{
			Attack: o.Attack.Title(), Of: "users of anonymous updates", Users: new(int64(o.Users)), Items: new(int64(v.Items)),
			AP: o.AP, APLow: &o.APInterval.Low, APHigh: &o.APInterval.High, Chance: o.Chance, Share: &o.Share,
			Factor: o.Factor, FactorLow: &o.FactorInterval.Low, FactorHigh: &o.FactorInterval.High, P: &o.P,
			Top1: &o.Top1.Share, Top1Chance: &o.Top1.Chance, Top5: &o.Top5.Share, Top5Chance: &o.Top5.Chance,
		})
	}
	return rows
}

// UserRows implements audits.AttackedByUser.
func (v *Verdict) UserRows() (rows []audits.AttackedUser) {
	for _, o := range v.Attacks {
		for _, u := range o.PerUser {
			rows = append(rows, audits.AttackedUser{Attack: o.Attack.Title(), User: int64(u.User), AP: u.AP, Chance: u.Chance})
		}
	}
	return rows
}

// Figure implements audits.Figured: the precision-recall curve of the best attack, and points
// of the others'.
func (v *Verdict) Figure(*audits.Cell) *audits.Figure {
	best := v.Best()
	if best == nil {
		return nil
	}
	f := &audits.Figure{
		Name: "Precision and recall of attacks on updates", Title: "precision in % against recall in %",
		About: "How many of the updates that an attack names first are a user's, in %, where so many of the user's updates are found; the mean over users. " +
			"The line is the attack with the highest average precision, dots are the others; in grey the cosine, which needs no training. The dashed line is chance.",
		X: audits.Axis{Most: 100}, Y: audits.Axis{Most: 100}, Limit: 100 * best.Chance,
	}
	for i, precision := range best.Curve {
		f.Line = append(f.Line, audits.Point{X: float64(i + 1), Y: 100 * precision})
	}
	for _, o := range v.Attacks {
		for i := 4; i < len(o.Curve) && o.Attack != best.Attack; i += 5 {
			f.Dots = append(f.Dots, audits.Dot{
				X: float64(i + 1), Y: 100 * o.Curve[i], Grey: o.Attack == attacks.Cosine,
				About: fmt.Sprintf("%s: precision %.1f%% at a recall of %d%%", o.Attack.Title(), 100*o.Curve[i], i+1),
			})
		}
	}
	return f
}

// Limits of audit.fail_if.
type Limits struct {
	// Deanonymization limits how many times chance the average precision of the best attack
	// is. A cell is above it where a bound from below is, that holds with
	// audit.deanonymization.confidence.
	Deanonymization *float64 `json:"deanonymization,omitempty" range:"[1,1e9]" unit:"times chance"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok || l.Deanonymization == nil || v.Best() == nil {
		return nil
	}
	least := v.Best()
	for i := range v.Attacks {
		if o := &v.Attacks[i]; o.FactorAtLeast > least.FactorAtLeast {
			least = o
		}
	}
	what := fmt.Sprintf("deanonymization by %s is %.4g times chance", least.Attack.Title(), least.Factor)
	if few := audits.TooFew(what, least.Users, least.FactorInterval.High, *l.Deanonymization, least.Chance); few != "" {
		return []string{few}
	}
	return audits.Above(fmt.Sprintf("%s; at least, with %g%% confidence, it", what, 100*v.Confidence), least.FactorAtLeast, l.Deanonymization)
}

// FalseAlarms implements audits.FalseAlarmer.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok || l.Deanonymization == nil {
		return nil
	}
	alarm := audits.FalseAlarm{
		Limit: "deanonymization", Allowed: *l.Deanonymization, Trials: len(f.Deanonymization.Attacks), Unit: "attacks",
		Probability: 1 - f.Deanonymization.Confidence.Float64(),
	}
	if d := s.Data; d != nil && d.Seen > 0 && d.Seen == s.Owners() { // only then is chance known: 1 of the seen users
		alarm.Users, alarm.Fewest = d.Seen, audits.FewestAbove(*l.Deanonymization/float64(d.Seen))
	}
	alarm.Where = audits.JudgedAt("the attacks at the limit", alarm.Users)
	return []audits.FalseAlarm{alarm}
}
