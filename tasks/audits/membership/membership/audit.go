package membership

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "membership",
	Limits:      limits,
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Losses, ScoredLosses, Texts, Kind},
	Models:      audits.Anything,
	ByScores:    true,
	ByProgram:   true,
	AtEnd:       true,
	Pairs:       audits.EverySecret,
	OutcomeBlob: audits.OutcomeBlob,
	References:  func(f audits.Fields) int { return f.(*Fields).Membership.ReferenceModels },
	Measures: slices.Concat(audits.Within((*Outcome).measured,
		audits.Columns[Outcome]("membership_", "members", "sharers", "held_out", "references")...,
	), audits.Within(members(Loss),
		audits.Measure{
			Name: "membership_auc", Doc: "AUC of the attack by the loss: the probability that the model predicts the text of a member better than that of a held-out user; 50% by chance", Of: auc,
			Header: "member AUC %", Scale: audits.Percent, Digits: 1, Better: audits.Lower,
		},
		audits.Measure{Name: "membership_tpr_1", Of: truePositives(0), Header: "TPR % at 1% FPR", Optional: true, Scale: audits.Percent, Digits: 1, Doc: "true positive rate of the attack by the loss at a false positive rate of 1%"},
		audits.Measure{Name: "membership_tpr_01", Of: truePositives(1), Doc: "true positive rate of the attack by the loss at a false positive rate of 0.1%"},
	), audits.Within(func(v *Outcome) *Group { return v.of(Loss).Sharers },
		audits.Measure{Name: "membership_sharers_auc", Of: auc, Doc: "AUC of the attack by the loss for users with canaries, in place of members"},
	), byReferences("lira", LiRA, LiRAOffline), byReferences("rmia", RMIA, RMIAOffline), audits.Within(func(v *Outcome) *Group { return v.blind().Members },
		audits.Measure{Name: "membership_blind_auc", Of: auc, Header: "blind AUC %", Optional: true, Scale: audits.Percent, Digits: 1, Doc: "AUC of a classifier that sees the texts and no model; an attack with no larger AUC shows nothing about the model"},
	), area("zlib", Zlib), area("min_k", MinK), area("min_k_plus_plus", MinKPlusPlus), area("curvature", Curvature), area("recall", ReCaLL), area("neighbours", Neighbour),
		[]audits.Measure{{Of: audits.Of((*Outcome).bestAUC), Scale: audits.Percent, Drawn: "member AUC of the best attack, %", Level: 50}}),
	MemberRows: audits.From((*Outcome).rows),
})

var auc = audits.Of(func(g *Group) *audits.Interval { return &g.AUC })

// truePositives returns the share of true positives at falsePositives[at].
func truePositives(at int) audits.Value {
	return audits.Of(func(g *Group) *audits.Interval { return g.Rates[at].TruePositives.Interval() })
}

func members(a Attack) func(*Outcome) *Group {
	return func(v *Outcome) *Group { return v.of(a).Members }
}

func area(name string, a Attack) []audits.Measure {
	return audits.Within(members(a), audits.Measure{Name: "membership_" + name + "_auc", Doc: "AUC of the membership attack by " + a.Title() + ", 50% by chance", Of: auc})
}

// byReferences returns the measures of an attack by all reference models, and by those without a user.
func byReferences(name string, online, offline Attack) []audits.Measure {
	found := func(at int) audits.Value {
		return audits.Of(func(g *Group) *float64 {
			if r := g.Rates[at].TruePositives; r != nil {
				return &r.Share
			}
			return nil
		})
	}
	return append(audits.Within(members(online),
		audits.Measure{
			Name: "membership_" + name + "_auc", Doc: "AUC of the membership attack " + online.Title() + " by reference models, 50% by chance", Of: auc,
			Header: online.Title() + " AUC %", Optional: true, Scale: audits.Percent, Digits: 1,
		},
		audits.Measure{Name: "membership_" + name + "_tpr_1", Doc: "true positive rate of " + online.Title() + " at a false positive rate of 1%", Of: found(0)},
		audits.Measure{Name: "membership_" + name + "_tpr_01", Doc: "true positive rate of " + online.Title() + " at a false positive rate of 0.1%", Of: found(1)},
	), area(name+"_offline", offline)...)
}

type Fields struct {
	// Membership inference of users from the last model: users that train, and separately users with
	// canaries, against data.held_out_users. A classifier of the texts without a model is the baseline.
	Membership *Block `json:"membership,omitempty" also:"membership_inference mia" source:"Thakkar et al. 2020, section 5 (future work); Yeom et al. 2018"`
}

type Block struct {
	// Reference models, an even number: trained like the cell's model, without canaries and with other
	// seeds, each on a random half of all users, including held-out ones. Cells of one training share them.
	ReferenceModels int `json:"reference_models" default:"0" range:"[0,256]" unit:"models" also:"references shadow_models" source:"Carlini et al. 2022; Zarifzadeh et al. 2024"`
	Rescoring
}

// Rescoring is the further scorings of each text by the audited model, in fields, parameters and outcomes alike.
type Rescoring struct {
	PrefixUsers    int `json:"prefix_users,omitempty" default:"0" range:"[0,100]" unit:"users" doc:"Number of first held-out users whose texts precede the text of every other user when it is scored again (ReCaLL). That attack excludes them. 0: no such attack." also:"recall recall_prefix" source:"Xie et al. 2024"`
	NeighbourTexts int `json:"neighbour_texts,omitempty" default:"0" range:"[0,100]" unit:"texts an example" doc:"Neighbours of each example to score: copies with some words replaced by words of other users. 0: no such attack." also:"neighbours neighbors neighbour_attack" source:"Mattern et al. 2023"`
}

const path = "audit.membership"

// minReferences leaves two models with a user and two without.
const minReferences = 4

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	m, images := f.Membership, s.Reading.Level == text.ImageLevel
	fail.If(s.HeldOutUsers.IsZero(), []string{path, "data.held_out_users.fraction"}, "compares users that train with users that do not, and data.held_out_users.fraction is 0; raise it, as to 20%%")
	n := m.ReferenceModels
	fail.If(n%2 == 1 || n > 0 && n < minReferences, []string{path + ".reference_models"}, "is %d; expected 0, or an even number from %d: each user trains half of them", n, minReferences)
	fail.If(m.PrefixUsers > 0 && (!possible(s).tokens || s.Reading.Pairs), []string{path + ".prefix_users"}, "has a model read a text after others, and the cell's cannot; expected 0 for images, pairs of texts and training.client_command")
	fail.If(m.NeighbourTexts > 0 && (images || s.Reading.Pairs), []string{path + ".neighbour_texts"}, "replaces words of texts; expected 0 for images and for pairs of texts")
	fail.If(!s.Own, []string{path, "data.select", "data.sanitize", "data.disagreement", "data.devices"}, "measures users on the text that they have, and they train on some of it; expected no data.select, data.sanitize, data.disagreement or data.devices")
	fail.If(s.Generator, []string{path, "model.kind"}, "measures what a model predicts, and a gan predicts nothing; expected another model.kind, or no such audit")
	fail.If(s.Reading.Label != "", []string{path, "data.label"}, "measures the loss of words or of classes, but data.label is %s; set it to null for this cell", s.Reading.Label)
	for _, other := range s.Audits {
		_, plants := other.(audits.Planter)
		fail.If(plants, []string{path, "audit.one_run"}, "measures users that train on their own text, and the one-run audit replaces that of some; ask for them in two experiments")
	}
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	half, n := (d.Users+d.HeldOutUsers)/2, f.Membership.PrefixUsers
	fail.If(f.Membership.ReferenceModels > 0 && !s.Training.Central && s.Training.Cohort > half, []string{"training.cohort"}, "is %d; expected at most %d with %s.reference_models: each trains on half of the users of %s", s.Training.Cohort, half, path, d.Source)
	fail.If(d.HeldOutUsers > 0 && n >= d.HeldOutUsers, []string{path + ".prefix_users"}, "is %d; expected fewer than the %s of %s, of whom the others are compared with those that train", n, readable.Count(d.HeldOutUsers, "held-out user"), d.Source)
	fail.If(d.HeldOutUsers == 0 && !s.HeldOutUsers.IsZero(), []string{"data.held_out_users.fraction"}, "is %s, which holds none of the users of %s out; raise it, or remove %s", s.HeldOutUsers, d.Source, path)
}

func (f *Fields) Warnings(_ *audits.Setting, d *audits.Data) (warnings []string) {
	members := readable.Count(d.Users-d.Carriers, "training user")
	if d.Carriers > 0 {
		members = fmt.Sprintf("about %s without a canary", members)
	}
	switch least := needed(falsePositives[0]); {
	case min(d.Users-d.Carriers, d.HeldOutUsers) < minUsers:
		return []string{fmt.Sprintf("audit.membership has %s and %s: an AUC takes %d of each", members, readable.Count(d.HeldOutUsers, "held-out user"), minUsers)}
	case d.HeldOutUsers < least:
		warnings = append(warnings, fmt.Sprintf("audit.membership has %s, and true positives at %g%% false ones are estimated from %d on: it will print the AUC alone", readable.Count(d.HeldOutUsers, "held-out user"), 100*falsePositives[0], least))
	}
	if d.Users-d.Carriers < fewUsers {
		warnings = append(warnings, fmt.Sprintf("audit.membership has %s: an AUC over fewer than %d says little", members, fewUsers))
	}
	return warnings
}

// fewUsers is the number of training users below which plan warns of wide intervals.
const fewUsers = 30

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	m, seed := f.Membership, b.Setting().Seed
	p := Params{References: m.ReferenceModels, Rescoring: m.Rescoring, Seed: seed}
	has := possible(b.Setting())
	audited := LossParams{Rescoring: m.Rescoring}
	if m.NeighbourTexts > 0 {
		audited.Seed = seed
	}
	audited.ByToken = has.tokens
	inputs := losses(b, b.Model(round), audited, fmt.Sprintf("the model after %d", round), tasks.PartInput)
	p.Shares = len(inputs)
	if has.texts {
		p.Texts = true
		inputs = append(inputs, tasks.Input{Name: TextsInput, Key: b.Node(Texts, "texts of users", struct{}{}, populationInputs(b)...)})
	}
	for model := range p.References {
		name := func(share int) string { return ReferenceInput(model, share) }
		inputs = append(inputs, losses(b, b.Reference(model), LossParams{}, fmt.Sprintf("reference model %d", model+1), name)...)
	}
	return b.Node(Kind, "membership of users", p, inputs...)
}

func losses(b audits.Builder, model storage.Key, p LossParams, of string, name func(share int) string) []tasks.Input {
	inputs := append([]tasks.Input{{Name: audits.ModelInput, Key: model}}, populationInputs(b)...)
	return utility.UserShares(b, Losses, ScoredLosses, "losses of users %d of %d under "+of, name, func(share utility.UserShare) any {
		share.ByToken = p.ByToken
		p.UserShare = share
		return p
	}, inputs)
}

func populationInputs(b audits.Builder) []tasks.Input {
	inputs := []tasks.Input{{Name: population.BalancedInput, Key: b.Balanced()}, {Name: population.PartsInput, Key: b.Parts()}}
	if insertions := b.Insertions(); insertions != (storage.Key{}) {
		inputs = append(inputs, tasks.Input{Name: population.InsertionsInput, Key: insertions})
	}
	return inputs
}

// possible returns the inputs of attacks in a setting, for an external model if it returns log-probabilities
// of tokens.
func possible(s *audits.Setting) inputs {
	texts := s.Reading.Level != text.ImageLevel
	tokens := texts && s.Program == nil
	of := inputs{texts: texts, tokens: tokens, wholes: tokens && s.External == nil}
	if f, ok := audits.FieldsOf[*Fields](s); ok {
		of.prefix, of.neighbours, of.references = f.Membership.PrefixUsers > 0, f.Membership.NeighbourTexts > 0, f.Membership.ReferenceModels > 0
	}
	return of
}

// States implements audits.Scorer: the training part under every model.
func (f *Fields) States(s *audits.Setting) float64 {
	scorings := 1 + f.Membership.NeighbourTexts + f.Membership.ReferenceModels
	if f.Membership.PrefixUsers > 0 {
		scorings++
	}
	return s.TrainTokens() * float64(scorings)
}

type Outcome struct {
	Members int `json:"members" doc:"training users without canaries, whose membership is attacked"`
	Sharers int `json:"sharers" doc:"training users with canaries, who are no members of the other columns"`
	HeldOut int `json:"held_out" doc:"held-out users whom members are compared with"`
	// LeftOut is the number of users that cannot be scored: canaries replaced all examples, or images have no labels.
	LeftOut int `json:"left_out,omitempty" doc:"number of training users that the attacks leave out"`
	// Alike reports whether the model gives the texts of all users the same mean loss.
	Alike      bool `json:"alike,omitempty"`
	References int  `json:"references,omitempty" doc:"reference models of LiRA and RMIA"`
	// Only ReCaLL excludes PrefixUsers.
	Rescoring
	Attacks []AttackOutcome `json:"attacks"`
	// Blind is the outcome of a classifier on the texts of users, without a model; nil for images.
	Blind *AttackOutcome `json:"blind,omitempty" doc:"by a classifier that sees texts and no model"`
}

type AttackOutcome struct {
	Attack Attack `json:"attack"`
	// Members and Sharers are compared with held-out users. Each is nil if it or they are fewer than two.
	// Zlib has no Sharers.
	Members *Group `json:"members,omitempty" doc:"of members against held-out users"`
	Sharers *Group `json:"sharers,omitempty" doc:"of users with canaries against held-out users"`
	// Curve is the share of Members found, in [0, 1], at 0%, 1%, ..., 100% false positives.
	Curve []float64 `json:"curve,omitempty" doc:"share of members found at 0%, 1%, ..., 100% false positives"`
	// OverBlind is the AUC of Members minus that of the blind baseline; nil with fewer than 10 of them or of
	// held-out users.
	OverBlind *audits.Interval `json:"over_blind,omitempty" doc:"of the AUC of members less that of the blind baseline"`
}

// Group compares a group of users that trained with held-out ones.
type Group struct {
	Users int `json:"users" doc:"number of users"`
	// AUC is the area under the receiver operating characteristic, in [0, 1], 0.5 by chance.
	AUC audits.Interval `json:"auc" doc:"of the AUC"`
	// P is the p-value of Mann and Whitney's test of equal scores.
	P     float64 `json:"p" doc:"p-value of Mann and Whitney's test of equal scores"`
	Rates []Rate  `json:"rates"`
}

// Rate is a rate of true positives at a rate of false positives.
type Rate struct {
	FalsePositives float64 `json:"false_positives" doc:"false positive rate, from 0 to 1"`
	// TruePositives is nil with fewer than Needed held-out users.
	TruePositives *audits.Share `json:"true_positives,omitempty" doc:"of the true positive rate"`
	Needed        int           `json:"needed" doc:"least number of held-out users for this false positive rate"`
}

// of returns the outcome of an attack, or empty.
func (v *Outcome) of(a Attack) AttackOutcome {
	return *cmp.Or(lists.Find(v.Attacks, func(o *AttackOutcome) bool { return o.Attack == a }), &AttackOutcome{})
}

// blind returns the baseline's outcome, empty for images.
func (v *Outcome) blind() AttackOutcome { return *cmp.Or(v.Blind, &AttackOutcome{}) }

func (v *Outcome) withBlind() []AttackOutcome { return append(slices.Clone(v.Attacks), v.blind()) }

func (v *Outcome) measured() *Outcome {
	if v.Attacks == nil {
		return nil
	}
	return v
}

// bestAUC returns the AUC of the best attack on members, or nil.
func (v *Outcome) bestAUC() (best *audits.Interval) {
	for _, o := range v.Attacks {
		if g := o.Members; g != nil && (best == nil || g.AUC.Value > best.Value) {
			best = &g.AUC
		}
	}
	return best
}

// rows returns the attacks on both groups of users, followed by the baseline.
func (v *Outcome) rows() (rows []audits.MemberAttack) {
	for _, o := range v.withBlind() {
		if o.Members != nil {
			rows = append(rows, o.Members.row(o.Attack, "members"))
			if d := o.OverBlind; d != nil {
				last := &rows[len(rows)-1]
				last.BlindAUC = new(last.AUC - d.Value)
				last.OverBlind, last.OverBlindLow, last.OverBlindHigh = &d.Value, &d.Low, &d.High
			}
		}
		if o.Sharers != nil {
			rows = append(rows, o.Sharers.row(o.Attack, "users with canaries"))
		}
	}
	return rows
}

func (g *Group) row(a Attack, of string) audits.MemberAttack {
	row := audits.MemberAttack{Attack: a.Title(), Of: of, Users: int64(g.Users), AUC: g.AUC.Value, AUCLow: g.AUC.Low, AUCHigh: g.AUC.High, P: g.P}
	if r := g.Rates[0].TruePositives; r != nil {
		row.TPR1, row.TPR1Low, row.TPR1High = &r.Share, &r.Low, &r.High
	}
	if r := g.Rates[1].TruePositives; r != nil {
		row.TPR01, row.TPR01Low, row.TPR01High = &r.Share, &r.Low, &r.High
	}
	return row
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("membership: %s that trained against %d held-out ones", readable.Count(v.Members, "user"), v.HeldOut)
	if v.Sharers > 0 {
		note += fmt.Sprintf("; %s with canaries apart", readable.Count(v.Sharers, "user"))
	}
	if v.LeftOut > 0 {
		note += fmt.Sprintf("; %s left out for having nothing to predict", readable.Count(v.LeftOut, "user"))
	}
	if v.References > 0 {
		note += fmt.Sprintf("; %d reference models", v.References)
	}
	if n := v.PrefixUsers; n > 0 {
		note += fmt.Sprintf("; ReCaLL scores texts after those of %s, whom it leaves out", readable.Count(n, "held-out user"))
	}
	if n := v.NeighbourTexts; n > 0 {
		note += fmt.Sprintf("; %s of each text", readable.Count(n, "neighbour"))
	}
	if v.Alike {
		note += "; the model gives all users the same loss, so that nothing can tell them apart: it scores everything alike"
	} else if v.referencesAlike() {
		note += "; every attack by reference models ranks all users alike, as if the scorer read one model for all: check that it loads the model that it is given"
	}
	if g := v.blind().Members; g != nil {
		note += fmt.Sprintf("; the texts alone, without a model, tell members with AUC %s%s", percents(g.AUC), audits.TooFewToTell(min(g.Users, v.HeldOut), chance))
	}
	if g := v.blind().Sharers; g != nil {
		note += fmt.Sprintf("; users with canaries are scored by the texts that canaries did not replace, which are shorter than those of held-out users: "+
			"zlib and the blind baseline (AUC %s) find these users by the length, which says nothing about the model", percents(g.AUC))
	}
	for _, o := range v.Attacks {
		if text := o.text(v); text != "" {
			note += "; " + text
		}
	}
	note += v.notEstimable()
	if v.tooFew() {
		note += fmt.Sprintf("; no AUC: it takes %d users of each sort at least", minUsers)
	}
	return note
}

// referencesAlike reports whether all attacks by reference models are at chance exactly, with p 1: their scores are
// equal if each user has one loss under all models.
func (v *Outcome) referencesAlike() bool {
	compared := false
	for _, o := range v.Attacks {
		if d := o.Attack.description(); d == nil || !d.needs.references || o.Members == nil {
			continue
		}
		if compared = o.Members.AUC.Value == chance && o.Members.P == 1; !compared {
			return false
		}
	}
	return compared
}

func (v *Outcome) tooFew() bool { return min(v.Members, v.HeldOut) < minUsers }

const chance = 0.5

func (o *AttackOutcome) text(v *Outcome) string {
	var texts []string
	if o.Members != nil {
		texts = append(texts, o.Members.text(v.HeldOut)+o.overBlindText(v.blind().Members))
	}
	if o.Sharers != nil {
		texts = append(texts, "of users with canaries "+o.Sharers.text(v.HeldOut))
	}
	if texts == nil {
		return ""
	}
	return o.Attack.Title() + ": " + strings.Join(texts, ", ")
}

// overBlindText compares an attack with the blind baseline. A baseline below chance by chance makes every
// attack look better.
func (o *AttackOutcome) overBlindText(blind *Group) string {
	switch d := o.OverBlind; {
	case d == nil:
		return ""
	case d.Low > 0 && (blind.AUC.Value >= chance || o.Members.AUC.Low > chance):
		return fmt.Sprintf(", above the blind baseline of %.2f%% by %s", 100*blind.AUC.Value, percents(*d))
	case d.Low > 0:
		return fmt.Sprintf(", above the blind baseline of %.2f%%, but not shown to be above chance", 100*blind.AUC.Value)
	default:
		return fmt.Sprintf(", not shown to be above the blind baseline of %.2f%% (by %s)", 100*blind.AUC.Value, percents(*d))
	}
}

// percents returns the form "64.70% (62.40 to 66.80)".
func percents(b audits.Interval) string {
	return fmt.Sprintf("%.2f%% (%.2f to %.2f)", 100*b.Value, 100*b.Low, 100*b.High)
}

func (g *Group) text(heldOut int) string {
	text := fmt.Sprintf("AUC %s, %s%s", percents(g.AUC), audits.PText(g.P), audits.TooFewToTell(min(g.Users, heldOut), chance))
	for _, r := range g.Rates {
		if r.TruePositives != nil {
			text += fmt.Sprintf(", TPR at %g%% FPR %s", 100*r.FalsePositives, r.TruePositives.Percent())
		}
	}
	return text
}

// notEstimable names the rates for which there are too few held-out users. All attacks lack them.
func (v *Outcome) notEstimable() (text string) {
	if g := v.of(Loss).Members; g != nil {
		for _, r := range g.Rates {
			if r.TruePositives == nil {
				text += fmt.Sprintf("; TPR at %g%% FPR not estimable (needs %d held-out users)", 100*r.FalsePositives, r.Needed)
			}
		}
	}
	return text
}

// cost describes how often an attack scores each text, if more than once.
func (v *Outcome) cost(a Attack) string {
	d, others := a.description(), 0
	switch {
	case d == nil:
	case d.needs.prefix:
		others = 1
	case d.needs.neighbours:
		others = v.NeighbourTexts
	case d.needs.references:
		others = v.References
	}
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(", %d scorings", 1+others)
}

// Figure implements audits.Figured: the receiver operating characteristics.
func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	f := &audits.Figure{
		Name:  "Membership of users",
		Title: "true positives in % against false positives in %",
		About: "The share of the users of the training that each attack finds (upwards, %), against the share of the held-out users that it takes for members (to the right, %). " +
			"Scores that know nothing lie on the diagonal, and an attack says something about the model above the line of the blind baseline alone. " +
			"Scorings: how often an attack scores each text, if more than once.",
		X: audits.Axis{Title: "false positives (%)", Max: 100}, Y: audits.Axis{Title: "true positives (%)", Max: 100},
		Lines: []audits.Line{{Name: "chance", Points: []audits.Point{{}, {X: 100, Y: 100}}}},
	}
	for _, o := range v.withBlind() {
		if o.Curve == nil {
			continue
		}
		line := audits.Line{Name: o.Attack.Title() + v.cost(o.Attack)}
		for percent, found := range o.Curve {
			line.Points = append(line.Points, audits.Point{X: float64(percent), Y: 100 * found})
		}
		f.Lines = append(f.Lines, line)
	}
	if len(f.Lines) == 1 {
		return nil
	}
	return f
}

var limits = []audits.Limit{
	audits.LimitOf[float64]{
		Name:     "membership_auc",
		Doc:      "Area under the ROC curve of every attack on the membership of users, those with canaries apart, by its lower 95% bound. Fails with fewer than two users of a kind.",
		Range:    "[0.5,1)",
		Breaches: audits.Judged("membership_auc", func(v *Outcome, limit float64) []string { return areas(v, limit).Breaches() }),
		// A missing AUC of users without canaries is a breach.
		Unjudged: audits.NotJudged(func(v *Outcome, limit float64) []string {
			return append(areas(v, limit).Unjudged(), v.missing("the AUC", false)...)
		}),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			users := 0
			if d := s.Data; d != nil {
				users = min(d.Users, d.HeldOutUsers)
			}
			return audits.FactorAlarms("membership_auc", limit, numbers(s), "AUCs", users, 1)
		},
	}.Limit(),
	audits.LimitOf[float64]{
		Name:     "membership_tpr",
		Doc:      "True-positive rate of these attacks on users that trained, at 1% false positives, likewise. Fails if it cannot be estimated.",
		Range:    "[0.01,1)",
		Breaches: audits.Judged("membership_tpr", rateBreaches),
		Unjudged: audits.NotJudged(func(v *Outcome, _ float64) []string { return v.missing("the true-positive rate", true) }),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			heldOut := 0
			if d := s.Data; d != nil {
				heldOut = d.HeldOutUsers
			}
			alarms := audits.FactorAlarms("membership_tpr", limit, numbers(s), "rates", heldOut, 1)
			alarms[0].Fewest = needed(falsePositives[0])
			return alarms
		},
	}.Limit(),
}

// numbers returns the number of AUCs, or rates, of a cell.
func numbers(s *audits.Setting) (n int) {
	for _, attack := range attacks {
		if !possible(s).cover(attack.needs) {
			continue
		}
		n++
		if s.Canaries != nil && attack.name.tellsSharers() {
			n++
		}
	}
	return n
}

// areas returns a gate that has judged the areas of all attacks. For users without canaries an area is
// required.
func areas(v *Outcome, limit float64) *audits.Gate {
	areas := audits.Gate{Name: "membership_auc", Limit: limit}
	for _, o := range v.Attacks {
		for group, g := range o.groups() {
			areas.Number(fmt.Sprintf("the AUC of %s by %s", group, o.Attack.Title()), min(g.Users, v.HeldOut), g.AUC)
		}
	}
	if v.tooFew() {
		areas.Fail(fmt.Sprintf("the AUC of membership can't be estimated, and so is not below the limit of %.4g: it takes %d users of each sort, and %d trained and %d are held out",
			limit, minUsers, v.Members, v.HeldOut))
	}
	return &areas
}

func rateBreaches(v *Outcome, limit float64) (breaches []string) {
	groups := 0
	for _, o := range v.Attacks {
		for group, g := range o.groups() {
			groups++
			rate := fmt.Sprintf("the true-positive rate of %s by %s", group, o.Attack.Title())
			if found := g.Rates[0].TruePositives; found != nil {
				breaches = append(breaches, audits.AboveLimit(fmt.Sprintf("%s is %.4g; at least it", rate, found.Share), found.Low, limit)...)
			} else {
				breaches = append(breaches, fmt.Sprintf("%s can't be estimated, and so is not below the limit of %.4g: it takes %d held-out users", rate, limit, g.Rates[0].Needed))
			}
		}
	}
	if groups == 0 {
		return audits.NoValue("membership_tpr", "the users are too few")
	}
	return breaches
}

// missing names the attacks without a number, in one reason for each group of users: users with canaries and, if
// members is set, members.
func (v *Outcome) missing(number string, members bool) (reasons []string) {
	var ofMembers, ofSharers []string
	for _, o := range v.Attacks {
		if members && o.Members == nil {
			ofMembers = append(ofMembers, o.Attack.Title())
		}
		if o.Sharers == nil && v.Sharers > 0 && o.Attack.tellsSharers() {
			ofSharers = append(ofSharers, o.Attack.Title())
		}
	}
	add := func(group string, titles []string, trained int) {
		if len(titles) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s of %s by %s, of too few users: it takes %d of each sort, and %d trained and %d are held out", number, group, strings.Join(titles, ", "), minUsers, trained, v.HeldOut))
		}
	}
	add("membership", ofMembers, v.Members)
	add("membership of users with canaries", ofSharers, v.Sharers)
	return reasons
}

func (o *AttackOutcome) groups() iter.Seq2[string, *Group] {
	return func(yield func(string, *Group) bool) {
		if o.Members != nil && !yield("membership", o.Members) {
			return
		}
		if o.Sharers != nil {
			yield("membership of users with canaries", o.Sharers)
		}
	}
}
