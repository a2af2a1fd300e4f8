// Package deanonymization measures how well attacks name the users of anonymous devices by their
// updates, after training on the updates of shadow devices (Orekondy et al. 2018, sections 4.3 and
// 6):
//
//	audits/reidentify        trains an attack on shadows, and scores anonymous updates
//	audits/deanonymization   compares the scores of all attacks with chance
package deanonymization

import (
	"context"

	"coalmine/internal/dataformats"
	"coalmine/internal/seeds"
	"coalmine/models/attacks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
)

type Params struct {
	Seed   uint64        `json:"seed"`
	Attack attacks.Kind  `json:"attack"`
	View   observed.View `json:"view"`
	// Learn are the rounds of the shadows' updates to learn from, Try the rounds of the scored anonymous
	// updates.
	Learn Rounds `json:"learn"`
	Try   Rounds `json:"try"`
	// Profiles makes the attack name profiles instead of users. Held-out users, or without them the shadows
	// of all, are not profiles.
	Profiles bool `json:"profiles,omitempty"`
	// Examples bounds the updates of each user to learn from; 0: no bound.
	Examples int `json:"examples,omitempty"`
	// Sums is the number of a round's anonymous updates that are visible only as their sum. If it is at most
	// 1, each is visible.
	Sums int `json:"sums,omitempty"`
	TrainingFields
}

// Rounds are the rounds from From to To, inclusive.
type Rounds struct {
	From int `json:"from" doc:"first round"`
	To   int `json:"to" doc:"last round"`
}

func (r Rounds) Has(round int) bool { return r.From <= round && round <= r.To }

// Reidentify trains an attack and scores the anonymous updates. Its inputs are those of package observed,
// its blobs ScoresBlob and ScoredBlob.
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
	// Classes are the users of the columns, or those that stand for profiles. If the attack also learned from
	// other users, these have an additional column.
	Classes []int `json:"classes"`
	Unseen  bool  `json:"unseen,omitempty"`
	// Untaught users have no class: no update of theirs was recorded.
	Untaught []int  `json:"untaught,omitempty"`
	Items    []Item `json:"items"`
	Taught
}

// Taught describes the training of an attack.
type Taught struct {
	// Learned and Validated count the updates of the training, and of its validation.
	Learned   int              `json:"learned" doc:"number of updates of the training"`
	Validated int              `json:"validated,omitempty" doc:"number of updates of the validation"`
	Training  attacks.Training `json:"training,omitzero" doc:"of the network"`
}

func (s *Scored) Columns() int {
	if s.Unseen {
		return len(s.Classes) + 1
	}
	return len(s.Classes)
}

// Item is an anonymous update, or a sum of updates, by the users of its devices.
type Item struct {
	Round int   `json:"round"`
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
	if err := t.Put(ctx, ScoresBlob, dataformats.NPYFloats(trial.scores, len(census.Items), shape.Classes)); err != nil {
		return err
	}
	return t.PutJSON(ctx, ScoredBlob, &census.Scored)
}

// open reads updates with their sent lengths, so that they can be summed.
func (p *Params) open(ctx context.Context, t *tasks.Task) (*observed.Reader, error) {
	return observed.View{Layers: p.View.Layers, Raw: true}.Open(ctx, t)
}
