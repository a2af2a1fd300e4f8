package deanonymization

import (
	"cmp"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models/attacks"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

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
	// Rough bound on an attack's updates in memory, besides its model and, for svm, 4 bytes for each
	// update and user. It affects results: updates that do not fit are read again in each epoch, shuffled
	// by blocks.
	Memory int `json:"memory" default:"1024" range:"[16,1048576]" unit:"MiB"`
}

type Block struct {
	AttackFields
	// Random updates of each shadow device to learn from. Absent: all.
	Examples int `json:"examples,omitempty" range:"[1,1000000]" unit:"updates of each user" source:"Orekondy et al. 2018, figure 8"`
	// Recorded rounds to use. Absent: all.
	Rounds *RoundRange `json:"rounds,omitempty"`
	// Ranges of rounds, on each of which attacks are also tried.
	Stages int `json:"stages,omitempty" range:"[2,100]" unit:"ranges of rounds" source:"10 in Orekondy et al. 2018, figure 10"`
	// Anonymous updates of a round visible only as their sum, as with secure aggregation, which is right
	// for each of its users.
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
	return []string{fmt.Sprintf("audit.deanonymization will be unable to name about %.0f of %d users: with %d of %d devices in a round, their shadow devices are in none of the %d recorded rounds, and the attacks never see an update of theirs (%s); record more rounds, or raise training.rounds or training.cohort",
		missed, d.Seen, s.Training.Cohort, d.Users, rounds, d.Label)}
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

// Params returns the parameters of one of the attacks.
func (f *AttackFields) Params(b audits.Builder, kind attacks.Kind, t TrainingFields, learn, try Rounds) Params {
	return Params{Seed: b.Setting().Seed, Attack: kind, View: f.View(b.Setting()), Learn: learn, Try: try, TrainingFields: t}
}

// split divides rounds into ranges of sizes as equal as possible. With 0 stages there are no ranges.
func (r Rounds) split(stages int) []Rounds {
	n := r.To - r.From + 1
	return lists.Make(stages, func(i int) Rounds { return Rounds{r.From + i*n/stages, r.From + (i+1)*n/stages - 1} })
}

// Work: half of the updates are those of shadows, and all stages together learn from them once more.
func (f *Fields) Work(s *audits.Setting) float64 {
	p := f.Deanonymization
	return AttacksWork(s, p.Attacks, p.Epochs, p.Batch, p.Examples) * float64(1+min(1, p.Stages))
}

// AttacksWork is the work of attacks that learn from half of the recorded updates, or from examples, if not
// 0, of each seen user. Trainings by steps may end before their last epoch. Other trainings take little work.
func AttacksWork(s *audits.Setting, kinds []attacks.Kind, epochs, batch, examples int) float64 {
	work, learned := 0.0, s.RecordedUpdates()/2
	if examples > 0 && s.Data != nil {
		learned = min(learned, float64(examples)*float64(s.Data.Seen))
	}
	for _, kind := range kinds {
		if kind == attacks.MLP || kind == attacks.SVM {
			work += s.UpdatesWork(attacks.Hidden, float64(epochs)*learned, audits.MomentumWork/float64(batch))
		}
	}
	return work
}
