package deanonymization

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:        "deanonymization",
	Limits:      limits,
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Reidentify, Summary},
	Models:      audits.Anything,
	ByProgram:   true,
	OutcomeBlob: audits.OutcomeBlob,
	AttackRows:  audits.From((*Outcome).attackRows),
	HeatMaps:    audits.From((*Outcome).heatMaps),
	UserRows:    audits.From((*Outcome).userRows),
	Measures: slices.Concat(
		audits.Within((*Outcome).Best,
			audits.Measure{Name: "deanonymization_attack", Of: audits.Of(func(o *AttackOutcome) attacks.Kind { return o.Attack }), Header: "named by", Text: audits.Of(func(o *AttackOutcome) string { return o.Attack.Title() }), Doc: "attack with the highest average precision, of which the other columns are"},
			audits.Measure{Name: "deanonymization_users", Of: audits.Of(func(o *AttackOutcome) int { return o.Users }), Doc: "users whom the attack can name and who have scored updates"},
		),
		[]audits.Measure{{Name: "deanonymization_updates", Of: audits.Of((*Outcome).named), Doc: "scored anonymous updates"}},
		audits.Within((*Outcome).Best,
			audits.Measure{
				Name: "deanonymization_ap", Of: audits.Of(func(o *AttackOutcome) audits.Interval { return audits.NewInterval(o.AP, o.APInterval) }),
				Header: "named AP % (x chance)", Text: audits.Of((*AttackOutcome).times), Scale: audits.Percent, Digits: 1,
				Doc: "average precision with which the best attack finds the updates of a user's anonymous device, mean over users; in brackets its ratio to chance (Orekondy et al. 2018)",
			},
			audits.Measure{Name: "deanonymization_chance", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Chance }), Doc: "average precision of the same scores for the updates of any device, including the user's own, mean over users"},
			audits.Measure{Name: "deanonymization_share", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Share }), Doc: "share of a user's updates among all, mean over users: the chance of Orekondy et al. 2018"},
			audits.Measure{Name: "deanonymization_factor", Of: audits.Of((*AttackOutcome).factor), Drawn: "named AP, times chance", Level: 1, Doc: "deanonymization_ap over deanonymization_chance, with its interval"},
			audits.Measure{Name: "deanonymization_p", Of: audits.Of(func(o *AttackOutcome) float64 { return o.P }), Doc: "p-value of deanonymization_ap if devices had random owners"},
			audits.Measure{Name: "deanonymization_top1", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Top1.Share }), Header: "top-1 %", Scale: audits.Percent, Digits: 1, Doc: "share of updates whose user scores highest"},
			audits.Measure{Name: "deanonymization_top1_chance", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Top1.Chance }), Doc: "deanonymization_top1 by chance"},
			audits.Measure{Name: "deanonymization_top5", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Top5.Share }), Doc: "share of updates whose user is among the five highest scores"},
			audits.Measure{Name: "deanonymization_top5_chance", Of: audits.Of(func(o *AttackOutcome) float64 { return o.Top5.Chance }), Doc: "deanonymization_top5 by chance"},
		),
		measuresByAttack(),
		audits.Within((*Outcome).Best, audits.Measure{Name: "deanonymization_stages", Of: audits.Of((*AttackOutcome).stages), Doc: "factors by stage of the training, a row each, and stage of the trial"}),
	),
})

type Fields struct {
	// Trains attacks on recorded updates of shadow devices to name the users of anonymous ones. Needs
	// data.devices and training.record.
	Deanonymization *Block `json:"deanonymization,omitempty" also:"reidentification re-identification" source:"Orekondy et al. 2018, sections 4.3 and 6"`
}

// AttackFields are the first fields of this audit and of profiles.
type AttackFields struct {
	// Attacks to try. Absent: all.
	Attacks []attacks.Kind `json:"attacks" also:"attack" source:"Orekondy et al. 2018, section 6.1.1; cosine: a baseline"`
	observed.ViewFields
}

// TrainingFields are those of the training of attacks, and parameters of the task.
type TrainingFields struct {
	// Maximum number of epochs of mlp, which ends when the loss on a tenth of the shadow updates no longer falls, and
	// of svm.
	Epochs int `json:"epochs" default:"1000" range:"[1,1000000]" unit:"epochs"`
	// Updates in a step.
	Batch int `json:"batch" default:"32" range:"[1,65536]" unit:"updates" also:"batch_size"`
	// Rough bound on an attack's updates in memory, without its model and, for svm, 4 bytes for each update and user.
	// It affects results: updates that do not fit are read again in each epoch, shuffled by blocks.
	Memory int `json:"memory" default:"1024" range:"[16,1048576]" unit:"MiB"`
}

type Block struct {
	AttackFields
	// Random updates of each shadow device to learn from. Absent: all.
	Examples int `json:"examples,omitempty" range:"[1,1000000]" unit:"updates of each user" source:"Orekondy et al. 2018, figure 8"`
	// Recorded rounds to use. Absent: all.
	Rounds *RoundRange `json:"rounds,omitempty"`
	// Ranges of rounds: attacks are also tried on each range.
	Stages int `json:"stages,omitempty" range:"[2,100]" unit:"ranges of rounds" source:"10 in Orekondy et al. 2018, figure 10"`
	// Anonymous updates of a round that are visible only as their sum, as with secure aggregation. Naming any user of
	// a sum counts as right.
	Sums int `json:"sums" default:"1" range:"[1,1000000]" unit:"updates" also:"secure_aggregation"`
	TrainingFields
	// Confidence of the bootstrap intervals over users.
	Confidence numbers.Probability `json:"confidence" default:"95%" range:"(0,1)"`
	// Results have every user's average precision.
	Users bool `json:"users,omitzero" default:"false" also:"per_user"`
}

// RoundRange are rounds from one to another.
type RoundRange struct {
	// First round.
	From int `json:"from" default:"1" range:"[1,1000000000]" unit:"rounds"`
	// Last round. Absent: that of the training.
	To int `json:"to,omitempty" range:"[1,1000000000]" unit:"rounds"`
}

// of returns the rounds of a training.
func (b *RoundRange) of(rounds int) Rounds {
	switch {
	case b == nil:
		return Rounds{1, rounds}
	case b.To == 0:
		return Rounds{b.From, rounds}
	}
	return Rounds{b.From, min(b.To, rounds)}
}

const path = "audit.deanonymization"

func (f *Fields) Complete(_ *audits.Setting, given func(path string) bool) {
	f.Deanonymization.CompleteAttacks(path, given)
}

// CompleteAttacks sets the default, all attacks.
func (f *AttackFields) CompleteAttacks(path string, given func(path string) bool) {
	if !given(path + ".attacks") {
		f.Attacks = attacks.Kinds()
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	p := f.Deanonymization
	observed.CheckDevices(s, path, fail)
	observed.CheckRecorded(s, path, p.Layers, fail)
	p.CheckAttacks(path, fail)
	r := cmp.Or(p.Rounds, &RoundRange{})
	fail.If(r.To > 0 && r.To < r.From, []string{path + ".rounds.to", path + ".rounds.from"}, "is %d, and the rounds begin at %d; expected at least that", r.To, r.From)
}

// CheckAttacks reports a list of attacks that is empty or names one twice.
func (f *AttackFields) CheckAttacks(path string, fail audits.Fail) {
	at := []string{path + ".attacks"}
	for i, kind := range f.Attacks {
		fail.If(slices.Index(f.Attacks, kind) < i, at, "names %s twice; expected each attack once", kind)
	}
	fail.If(len(f.Attacks) == 0, at, "is empty; expected some of %v, or leave it out for all", attacks.Kinds())
}

// CheckData requires two classes for an attack. One may be the class of all other users.
func (f *Fields) CheckData(_ *audits.Setting, d *audits.Data, fail audits.Fail) {
	users := d.Seen + d.Unseen + d.HeldOut
	if users == 0 || d.Seen > 1 || d.Seen == 1 && d.HeldOut > 0 {
		return
	}
	fail([]string{path, "data.devices"}, "has nobody to tell apart: of %d users %d are seen, who have a shadow device and are to be named, %d unseen and %d held out; expected two seen, or one beside held-out ones: lower data.devices.unseen or data.devices.held_out, or have more users take part",
		users, d.Seen, d.Unseen, d.HeldOut)
}

func (f *Fields) Warnings(s *audits.Setting, d *audits.Data) []string {
	if s.Recorded == nil {
		return nil
	}
	rounds := lists.Count(s.Recorded.RoundsOf(s.Training.Rounds), f.Deanonymization.Rounds.of(s.Training.Rounds).Has)
	missed := float64(d.Seen) * observed.Missed(s, d, rounds)
	if missed < 1 {
		return nil
	}
	return []string{fmt.Sprintf("audit.deanonymization will be unable to name about %.0f of %d users: with %d of %d devices in a round, their shadow devices are in none of the %d recorded rounds, so the attacks see none of their updates; record more rounds, or raise training.rounds or training.cohort",
		missed, d.Seen, s.Training.Cohort, d.Users, rounds)}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := f.Deanonymization
	within := p.Rounds.of(round)
	params := SummaryParams{Seed: b.Setting().Seed, Attacks: p.Attacks, Stages: within.split(p.Stages), Confidence: p.Confidence.Float64(), Users: p.Users}
	var inputs []tasks.Input
	for i, kind := range p.Attacks {
		inputs = append(inputs, tasks.Input{Name: AttackInput(i), Key: p.attack(b, kind, within, within)})
		for stage, learn := range params.Stages {
			inputs = append(inputs, tasks.Input{Name: StageInput(i, stage), Key: p.attack(b, kind, learn, within)})
		}
	}
	return b.Node(Summary, "whose updates they are", params, inputs...)
}

func (p *Block) attack(b audits.Builder, kind attacks.Kind, learn, try Rounds) storage.Key {
	params := p.Params(b, kind, p.TrainingFields, learn, try)
	params.Examples, params.Sums = p.Examples, p.Sums
	return b.Node(Reidentify, fmt.Sprintf("%s on updates of rounds %d to %d", kind.Title(), learn.From, learn.To), params, observed.Inputs(b.Recorded(), b.Devices())...)
}

func (f *AttackFields) Params(b audits.Builder, kind attacks.Kind, t TrainingFields, learn, try Rounds) Params {
	return Params{Seed: b.Setting().Seed, Attack: kind, View: f.View(b.Setting()), Learn: learn, Try: try, TrainingFields: t}
}

// split divides rounds into ranges of sizes as equal as possible. With 0 stages there are no ranges.
func (r Rounds) split(stages int) []Rounds {
	n := r.To - r.From + 1
	return lists.Make(stages, func(i int) Rounds { return Rounds{r.From + i*n/stages, r.From + (i+1)*n/stages - 1} })
}

// Work implements audits.Worker. Half of the updates are those of shadows, and all stages together learn from
// them once more.
func (f *Fields) Work(s *audits.Setting) float64 {
	p := f.Deanonymization
	return AttacksWork(s, p.Attacks, p.Epochs, p.Batch, p.Examples) * float64(1+min(1, p.Stages))
}

// Trainings of attacks end before their last epoch if they no longer improve: an SVM after svmEpochs, an MLP
// after a share of its epochs. In examples/orekondy-2018/profiles-small.yaml, of 500 epochs, they are 26 and 323.
const (
	svmEpochs = 30
	mlpShare  = 0.7
)

// AttacksWork returns the work of attacks that learn from half of the recorded updates, or from examples, if
// not 0, of each seen user. Other attacks than MLP and SVM take little work.
func AttacksWork(s *audits.Setting, kinds []attacks.Kind, epochs, batch, examples int) float64 {
	passes, learned := 0.0, s.RecordedUpdates()/2
	if examples > 0 && s.Data != nil {
		learned = min(learned, float64(examples)*float64(s.Data.Seen))
	}
	for _, kind := range kinds {
		if kind == attacks.MLP {
			passes += float64(mlpShare * float64(epochs))
		}
		if kind == attacks.SVM {
			passes += float64(min(epochs, svmEpochs))
		}
	}
	return s.UpdatesWork(attacks.Hidden, passes*learned, audits.MomentumWork/float64(batch))
}

// Outcome is the outcome of all attacks.
type Outcome struct {
	// Devices is the number of users of Items scored updates, or sums.
	Devices int `json:"devices" doc:"number of users with a scored update or sum"`
	Items   int `json:"items" doc:"number of scored updates, or sums of updates"`
	// Untaught is the number of users without a class: no update of their shadow device was recorded.
	Untaught   int             `json:"untaught,omitempty" doc:"number of users whose shadow device has no recorded update"`
	Confidence float64         `json:"confidence" doc:"confidence of the bootstrap intervals over users"`
	Attacks    []AttackOutcome `json:"attacks"`
	// AboveBaseline compares the best trained attack with the cosine.
	AboveBaseline *Difference `json:"above_baseline,omitempty" doc:"of the best trained attack"`
	// Stages are the ranges of rounds of the matrices.
	Stages []Rounds `json:"stages,omitempty" doc:"of a stage of the matrices"`
}

// AttackOutcome is the outcome of one attack.
type AttackOutcome struct {
	Attack attacks.Kind `json:"attack"`
	// Users is the number of users with a class and scored updates. Means are over them.
	Users int `json:"users" doc:"number of users with a class and scored updates"`
	// AP is the mean over users of the average precision, in (0, 1]; Chance its mean with any anonymous
	// device in the user's place; Factor AP / Chance. These, and the fields to P, are above 0 if there are
	// users, otherwise absent from the JSON.
	AP             float64          `json:"ap,omitzero" doc:"average precision, mean over users,"`
	APInterval     ranking.Interval `json:"ap_interval,omitzero" doc:"of ap"`
	Chance         float64          `json:"chance,omitzero" doc:"ap, with any anonymous device in the user's place"`
	Factor         float64          `json:"factor,omitzero" doc:"average precision divided by chance"`
	FactorInterval ranking.Interval `json:"factor_interval,omitzero" doc:"of factor"`
	// FactorAtLeast is a lower bound that holds for all attacks at once.
	FactorAtLeast float64 `json:"factor_at_least,omitzero" doc:"lower bound of factor for all attacks at once"`
	// Share is the share of the user's updates, mean over users: the chance of Orekondy et al. 2018.
	Share float64 `json:"share,omitzero" doc:"share of a user's updates, mean over users: the chance of Orekondy et al. 2018"`
	// P is the p-value of AP if devices had random owners.
	P float64 `json:"p,omitzero" doc:"p-value of ap if devices had random owners"`
	// Top1 and Top5 are absent if no scored update has a class.
	Top1   Top           `json:"top1,omitzero" doc:"of items whose user scores highest"`
	Top5   Top           `json:"top5,omitzero" doc:"of items whose user is among the five highest scores"`
	Unseen *ClassOutcome `json:"unseen,omitempty" doc:"for items of users without a class"`
	Taught
	// Curve is the precision at a recall of 1%, 2%, ..., mean over users.
	Curve []float64 `json:"curve,omitempty" doc:"precision at a recall of 1%, 2%, ..., mean over users"`
	// Matrix has rows for the stages of the training, and columns for the stages of the trial.
	Matrix  [][]Stage     `json:"matrix,omitempty" doc:"by stages of the training and of the trial"`
	PerUser []UserOutcome `json:"per_user,omitempty" doc:"of one user"`
}

// Top is the share of updates whose user is among the highest classes, with chance.
type Top struct {
	Count  int     `json:"count" doc:"number of items"`
	Of     int     `json:"of" doc:"number of items with a class"`
	Share  float64 `json:"share" doc:"share"`
	Chance float64 `json:"chance" doc:"expected share by chance"`
}

// ClassOutcome is the average precision for unseen users, with their share.
type ClassOutcome struct {
	AP    float64 `json:"ap" doc:"average precision"`
	Share float64 `json:"share" doc:"average precision by chance"`
	Items int     `json:"items" doc:"number of items"`
}

// Stage is an element of the matrix. AP and Factor are above 0 if there are users, otherwise absent from the
// JSON.
type Stage struct {
	Users  int     `json:"users" doc:"number of users"`
	AP     float64 `json:"ap,omitzero" doc:"average precision, mean over users"`
	Factor float64 `json:"factor,omitzero" doc:"average precision divided by chance"`
}

// UserOutcome is the average precision for one user, and chance.
type UserOutcome struct {
	User   int     `json:"user" doc:"number of the user in the data"`
	AP     float64 `json:"ap" doc:"average precision"`
	Chance float64 `json:"chance" doc:"average precision with any anonymous device in the user's place"`
}

// Difference is the AP of an attack minus the baseline's, over the same users.
type Difference struct {
	Attack   attacks.Kind     `json:"attack"`
	AP       float64          `json:"ap" doc:"average precision less that of the cosine"`
	Interval ranking.Interval `json:"interval" doc:"of that difference"`
}

// Best returns the attack with the highest AP; nil if no attack could name a user.
func (v *Outcome) Best() *AttackOutcome {
	var best *AttackOutcome
	for i := range v.Attacks {
		if o := &v.Attacks[i]; o.Users > 0 && (best == nil || o.AP > best.AP) {
			best = o
		}
	}
	return best
}

func measuresByAttack() (list []audits.Measure) {
	for _, kind := range attacks.Kinds() {
		list = append(list, audits.Within(func(v *Outcome) *AttackOutcome {
			return lists.Find(v.Attacks, func(o *AttackOutcome) bool { return o.Attack == kind && o.Users > 0 })
		}, audits.Qualified(" of the attack by "+kind.Title(), audits.Columns[AttackOutcome](fmt.Sprintf("deanonymization_%s_", kind), "ap", "factor")...)...)...)
	}
	return list
}

// named returns the number of updates; nil if no attack could name a user.
func (v *Outcome) named() *int {
	if v.Best() == nil {
		return nil
	}
	return &v.Items
}

func (o *AttackOutcome) factor() audits.Interval {
	return audits.NewInterval(o.Factor, o.FactorInterval)
}

// times returns the form "21.4 (3.2x)".
func (o *AttackOutcome) times() string { return fmt.Sprintf("%.1f (%.1fx)", 100*o.AP, o.Factor) }

// Note has the numbers of Table 3 of the paper.
func (v *Outcome) Note(*audits.Cell) string {
	parts := lists.Map(v.Attacks, func(o AttackOutcome) string { return o.text(v.Confidence) })
	note := fmt.Sprintf("whose update is it: %s of %s; %s", readable.Count(v.Items, "update"), readable.Count(v.Devices, "anonymous device"), strings.Join(parts, "; "))
	if v.Untaught > 0 {
		note += fmt.Sprintf("; %s can't be named, for no update of their shadow devices was recorded", readable.Count(v.Untaught, "user"))
	}
	note += v.baseline()
	if slices.ContainsFunc(v.Attacks, func(o AttackOutcome) bool { return o.Attack == attacks.MLP && o.Users > 0 }) {
		note += audits.UsersAlone + audits.Replicated
	}
	return note
}

func (o *AttackOutcome) text(confidence float64) string {
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

// baseline returns a note about the cosine if the lower bound of no trained attack is above it.
func (v *Outcome) baseline() string {
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

func (v *Outcome) attackRows() (rows []audits.Attack) {
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

func (v *Outcome) userRows() (rows []audits.AttackedUser) {
	for _, o := range v.Attacks {
		for _, u := range o.PerUser {
			rows = append(rows, audits.AttackedUser{Attack: o.Attack.Title(), User: int64(u.User), AP: u.AP, Chance: u.Chance})
		}
	}
	return rows
}

// Figure returns the precision-recall curve of the best attack, with points for the others.
func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	best := v.Best()
	if best == nil {
		return nil
	}
	f := audits.PrecisionRecall("Precision and recall of attacks on updates",
		"Precision against recall: the share of the updates that an attack names first that are a user's, and the share of the user's updates among them, in %; means over users. "+
			"The line is the attack with the highest average precision, dots are the others; in grey the cosine, which needs no training. The dashed line is chance.",
		best.Curve, best.Chance)
	f.Open, f.Grey = "other attacks", attacks.Cosine.Title()
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

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name:  "deanonymization",
	Doc:   "Average precision of the best attack, by its lower bound at audit.deanonymization.confidence.",
	Range: "[1,1e9]", Unit: "times chance",
	Breaches: audits.Judged("deanonymization", breaches), FalseAlarms: audits.Alarms(falseAlarms),
}.Limit()}

func breaches(v *Outcome, limit float64) []string {
	if v.Best() == nil {
		return audits.NoValue("deanonymization", "no attack has measured it")
	}
	least := v.Best()
	for i := range v.Attacks {
		if o := &v.Attacks[i]; o.FactorAtLeast > least.FactorAtLeast {
			least = o
		}
	}
	factor := fmt.Sprintf("deanonymization by %s is %.4g times chance", least.Attack.Title(), least.Factor)
	if few := audits.TooFew(factor, least.Users, least.FactorInterval.High, limit, least.Chance); few != "" {
		return []string{few}
	}
	return audits.AboveLimit(fmt.Sprintf("%s; at least, with %g%% confidence, it", factor, 100*v.Confidence), least.FactorAtLeast, limit)
}

func falseAlarms(f *Fields, s *audits.Setting, limit float64) []audits.FalseAlarm {
	alarm := audits.FalseAlarm{
		Limit: "deanonymization", Allowed: limit, Trials: len(f.Deanonymization.Attacks), Unit: "attacks",
		Probability: 1 - f.Deanonymization.Confidence.Float64(),
	}
	if d := s.Data; d != nil && d.Seen > 0 && d.Seen == s.Owners() { // otherwise chance, 1 of the seen users, is unknown
		alarm.Users, alarm.Fewest = d.Seen, audits.MinAbove(limit/float64(d.Seen))
	}
	alarm.Where = audits.WithMinUsers("the attacks at the limit", alarm.Users)
	return []audits.FalseAlarm{alarm}
}

func (v *Outcome) heatMaps() (maps []*audits.HeatMap) {
	for i := range v.Attacks {
		if o := &v.Attacks[i]; len(o.Matrix) > 0 {
			maps = append(maps, v.heatMap(o))
		}
	}
	return maps
}

// heatMap returns figure 10 of the paper: rows are the stages of the training, columns the stages of the
// trial.
func (v *Outcome) heatMap(o *AttackOutcome) *audits.HeatMap {
	m := &audits.HeatMap{
		Name:  "Stages of the training: named AP by " + o.Attack.Title() + ", times chance",
		About: "An attack has learned from the updates of a row's rounds, and was tried on those of a column's; both are called by the first of their rounds. A number is its average precision, times chance; there is none where nobody could be named.",
		Title: fmt.Sprintf("average precision of %s, times chance, by the rounds that it was trained on (downwards) and tried on (to the right)", o.Attack.Title()),
	}
	m.Down, m.Across = "trained on rounds from", "tried on rounds from"
	m.Rows = lists.Map(v.Stages, func(rounds Rounds) string { return fmt.Sprint(rounds.From) })
	m.Columns = m.Rows
	m.Values = eachStage(o, math.NaN(), func(s Stage) float64 { return s.Factor })
	return m
}

// stages returns the factors of the matrix, row by row: "4.1 2.5; 2.2 3.9", with a dash if no user could be
// named; nil without a matrix.
func (o *AttackOutcome) stages() *string {
	if len(o.Matrix) == 0 {
		return nil
	}
	factors := eachStage(o, "-", func(s Stage) string { return fmt.Sprintf("%.4g", s.Factor) })
	return new(strings.Join(lists.Map(factors, func(row []string) string { return strings.Join(row, " ") }), "; "))
}

// eachStage returns the values of the matrix, none if no user could be named.
func eachStage[T any](o *AttackOutcome, none T, of func(Stage) T) [][]T {
	return lists.Map(o.Matrix, func(row []Stage) []T {
		return lists.Map(row, func(s Stage) T {
			if s.Users == 0 {
				return none
			}
			return of(s)
		})
	})
}

// power returns the power of the best attack if it names the device of each user with a probability, and
// otherwise has average precision 0. Chance is one of the users.
func power(f *Fields, s *audits.Setting, v *Outcome) []audits.Statement {
	users := 0
	if v != nil && v.Best() != nil {
		users = v.Best().Users
	} else if v == nil && s.Data != nil {
		users = s.Data.Seen
	}
	if users == 0 {
		return nil
	}
	tail := (1 - f.Deanonymization.Confidence.Float64()) / float64(len(f.Deanonymization.Attacks))
	found := audits.Statement{
		Finds: "the lower bound of an attack is above chance", Limit: "deanonymization",
		Leak:  audits.Leak{Name: "share", Means: "the device of each user is named outright with the probability", Default: 0.2, Max: 1},
		Sizes: []audits.Size{{Unit: "user", N: users}},
		Nothing: audits.From(func(v *Outcome) bool {
			return v.Best() != nil && !slices.ContainsFunc(v.Attacks, func(o AttackOutcome) bool { return o.FactorAtLeast > 1 })
		}),
		Power: func(q audits.Question) float64 {
			n, limit := q.Sizes[0], q.LimitOr(1)
			return audits.BinomialTail(audits.MinCertain(n, limit/math.Max(1, float64(n)), tail)-1, n, q.Leak)
		},
	}
	if audits.MinCertain(users, 1/float64(users), tail) > users {
		found.None = fmt.Sprintf("even if all of %s were named, no lower bound would be above chance", readable.Count(users, "user"))
	}
	return []audits.Statement{found}
}
