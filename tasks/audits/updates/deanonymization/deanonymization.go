// Package deanonymization asks whether the updates of anonymous devices betray their users to
// a server that has trained attacks on those of shadow devices (Orekondy et al. 2018, sections
// 4.3 and 6):
//
//	audits/reidentify        an attack is trained on shadows and scores anonymous updates
//	audits/deanonymization   the scores of all attacks are compared with chance
package deanonymization

import (
	"context"

	"coalmine/internal/npy"
	"coalmine/internal/seeds"
	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
)

// Params are the parameters of audits/reidentify.
type Params struct {
	Seed   uint64        `json:"seed"`
	Attack attacks.Kind  `json:"attack"`
	View   observed.View `json:"view"`
	// Learn are the rounds of the shadows' updates that the attack is trained on, Try those of
	// the anonymous updates that it scores.
	Learn Rounds `json:"learn"`
	Try   Rounds `json:"try"`
	// Profiles has the attack name profiles in place of users. The devices of held-out users,
	// and where there are none the shadows of all, teach it what is no profile.
	Profiles bool `json:"profiles,omitempty"`
	// Examples bounds the number of updates of each user that it learns from; 0: all.
	Examples int `json:"examples,omitempty"`
	// Sums is the number of anonymous updates of a round that are visible only as their sum; 0
	// and 1: each is visible.
	Sums   int `json:"sums,omitempty"`
	Epochs int `json:"epochs"` // at most
	Batch  int `json:"batch"`
	Memory int `json:"memory"` // MiB of updates at once
}

// Rounds are those from From to To, both included.
type Rounds struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Has reports whether a round is one of them.
func (r Rounds) Has(round int) bool { return r.From <= round && round <= r.To }

// Reidentify trains an attack and scores the anonymous updates. Its inputs are those of package
// observed, its blobs ScoresBlob and ScoredBlob.
var Reidentify = tasks.Kind{Name: "audits/reidentify", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(reidentify)}

// Blobs of audits/reidentify.
const (
	// ScoresBlob is a file of NumPy: float32, [items, classes].
	ScoresBlob = "scores"
	// ScoredBlob is a Scored, as JSON.
	ScoredBlob = "scored"
)

// Scored describes the scores.
type Scored struct {
	// Classes are the users that the attack can name, or those that stand for profiles, in the
	// order of the columns. If it has learned from other users, too, these have one column more.
	Classes []int `json:"classes"`
	Unseen  bool  `json:"unseen,omitempty"`
	// Untaught are the users that are no classes because none of their updates was recorded.
	Untaught []int `json:"untaught,omitempty"`
	// Items are in the order of the rows.
	Items []Item `json:"items"`
	// Learned is the number of updates that the attack was trained on, beside those that
	// Validated it.
	Learned   int              `json:"learned"`
	Validated int              `json:"validated,omitempty"`
	Training  attacks.Training `json:"training,omitzero"`
}

// Columns is the number of scores of an item.
func (s *Scored) Columns() int {
	if s.Unseen {
		return len(s.Classes) + 1
	}
	return len(s.Classes)
}

// Item is an anonymous update, or a sum of some.
type Item struct {
	Round int `json:"round"`
	// Users whose devices have sent it.
	Users []int `json:"users"`
}

func reidentify(ctx context.Context, t *tasks.Task, p *Params) error {
	reader, err := p.open(ctx, t)
	if err != nil {
		return err
	}
	census, err := p.take(ctx, reader)
	if err != nil {
		return err
	}
	data := &source{params: p, reader: reader, census: census}
	shape := attacks.Shape{Inputs: reader.Values(), Classes: census.Columns()}
	attack, err := attacks.New(p.Attack, shape, attacks.Options{Epochs: p.Epochs, Batch: p.Batch}, seeds.Stream(p.Seed, seeds.NamingWeights))
	if err != nil {
		return tasks.Permanent(err)
	}
	if err := data.validate(ctx); err != nil {
		return err
	}
	if census.Training, err = attack.Train(ctx, data); err != nil {
		return err
	}
	data.close(p.Attack)
	trial := trial{source: data, attack: attack}
	if err := trial.run(ctx); err != nil {
		return err
	}
	if err := t.Put(ctx, ScoresBlob, npy.Floats(trial.scores, len(census.Items), shape.Classes)); err != nil {
		return err
	}
	return t.PutJSON(ctx, ScoredBlob, &census.Scored)
}

// open opens the updates with the lengths with which they were sent: a sum is one of these.
func (p *Params) open(ctx context.Context, t *tasks.Task) (*observed.Reader, error) {
	return observed.View{Layers: p.View.Layers, Raw: true}.Open(ctx, t)
}
