package membership

import (
	"fmt"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Fields struct {
	// Membership inference of users from the last model: users that train against data.held_out_users,
	// users with canaries apart, beside a classifier of texts that sees no model.
	Membership *Block `json:"membership,omitempty" also:"membership_inference mia" source:"Thakkar et al. 2020, section 5 (future work); Yeom et al. 2018"`
}

type Block struct {
	// An even number of models trained as the cell's, without canaries and with other seeds, each on a
	// random half of all users, held-out ones included. Cells of one training share them.
	ReferenceModels int `json:"reference_models" default:"0" range:"[0,256]" unit:"models" also:"references shadow_models" source:"Carlini et al. 2022; Zarifzadeh et al. 2024"`
	// First held-out users, whose texts stand before that of every other user when it is scored a second
	// time (ReCaLL), which leaves them out. 0: no such attack.
	PrefixUsers int `json:"prefix_users,omitempty" default:"0" range:"[0,100]" unit:"users" also:"recall recall_prefix" source:"Xie et al. 2024"`
	// Scored neighbours of each example: copies in which words of other users stand for some. 0: no such
	// attack.
	NeighbourTexts int `json:"neighbour_texts,omitempty" default:"0" range:"[0,100]" unit:"texts an example" also:"neighbours neighbors neighbour_attack" source:"Mattern et al. 2023"`
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
	fail.If(s.Reading.Label != "", []string{path, "data.label"}, "measures the loss of words or of classes, and data.label is %s; set it to null for this cell", s.Reading.Label)
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
		return []string{fmt.Sprintf("audit.membership has %s and %s (%s): an AUC takes %d of each", members, readable.Count(d.HeldOutUsers, "held-out user"), d.Label, minUsers)}
	case d.HeldOutUsers < least:
		warnings = append(warnings, fmt.Sprintf("audit.membership has %s (%s), and true positives at %g%% false ones are estimated from %d on: it will print the AUC alone", readable.Count(d.HeldOutUsers, "held-out user"), d.Label, 100*falsePositives[0], least))
	}
	if d.Users-d.Carriers < fewUsers {
		warnings = append(warnings, fmt.Sprintf("audit.membership has %s (%s): an AUC over fewer than %d says little", members, d.Label, fewUsers))
	}
	return warnings
}

// fewUsers is the number of training users below which plan warns of wide intervals.
const fewUsers = 30

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	m, seed := f.Membership, b.Setting().Seed
	p := Params{References: m.ReferenceModels, PrefixUsers: m.PrefixUsers, NeighbourTexts: m.NeighbourTexts, Seed: seed}
	has := possible(b.Setting())
	audited := LossParams{PrefixUsers: m.PrefixUsers, NeighbourTexts: m.NeighbourTexts}
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
