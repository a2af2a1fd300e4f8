// Package matching trains a Siamese network on pairs of the adversary's own updates, and asks
// it of pairs of anonymous ones whether they come from one user: it learns what updates of a
// user have in common, and so tells users apart whom it has never seen (Orekondy et al. 2018,
// sections 4.3 and 6.1.2).
//
//	audits/matching  trains the network, and measures it
package matching

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
	"coalmine/tasks/audits/updates/twins"
	"coalmine/tasks/devices"
)

// Params are the parameters of audits/matching.
type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Pairs is how many the network is trained on in an epoch, and measured on.
	Pairs int `json:"pairs"`
	// Units of each of the two layers of the tower.
	Units        int     `json:"units"`
	Epochs       int     `json:"epochs"`
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// Updates is how many of the shadow, and how many of the anonymous updates are looked
	// at, at most.
	Updates int `json:"updates"`
	// Centre has the network see what updates differ by from the mean of their round.
	Centre bool `json:"centre,omitempty"`
	// Again is how many more networks are trained, from other initial values.
	Again int `json:"again,omitempty"`
}

// Kind trains and measures. Its inputs are those of observed.Inputs, its metrics an Outcome.
// Memory is twice the values of Updates updates, and four times the network.
var Kind = tasks.Kind{Name: "audits/matching", Version: 3, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	r, err := p.Open(ctx, t)
	if err != nil {
		return err
	}
	shadow, anonymous, err := p.load(ctx, r)
	if err != nil {
		return err
	}
	if p.Centre {
		if err := r.Centre(ctx, shadow, anonymous); err != nil {
			return err
		}
	}
	l, err := p.newLearning(t, shadow)
	if err != nil {
		return err
	}
	if err := l.learn(ctx); err != nil {
		return err
	}
	v, err := p.measure(ctx, r, l, shadow, anonymous)
	if err != nil {
		return err
	}
	return t.SetMetrics(v)
}

// load reads the updates of shadow devices, and those of anonymous ones whose users are not
// held out.
func (p *Params) load(ctx context.Context, r *observed.Reader) (shadow, anonymous *observed.Sample, err error) {
	shadow, err = r.Sample(ctx, p.Seed, 0, p.Updates, func(o *observed.Observation) bool { return o.Shadow && o.Set != devices.Profile })
	if err != nil {
		return nil, nil, err
	}
	anonymous, err = r.Sample(ctx, p.Seed, 1, p.Updates, func(o *observed.Observation) bool { return !o.Shadow && o.Set != devices.HeldOut })
	return shadow, anonymous, err
}

// learning trains the network on pairs of updates of shadow devices.
type learning struct {
	*Params
	task     *tasks.Task
	network  *networks.Pairs
	training twins.Training
	twins.Learned

	shadow *observed.Sample
	// Of shadow, by the users: what is learned from, and what says when to stop.
	learned, validated part
}

// part is some rows of a sample.
type part struct {
	rows    []int
	updates []sameuser.Update
}

func partOf(s *observed.Sample, fits func(user int) bool) (p part) {
	for i, o := range s.Of {
		if fits(o.User) {
			p.rows, p.updates = append(p.rows, i), append(p.updates, updateOf(o))
		}
	}
	return p
}

func updateOf(o observed.Observation) sameuser.Update {
	return sameuser.Update{User: int32(o.User), Round: int32(o.Round)}
}

func (p *Params) newLearning(t *tasks.Task, shadow *observed.Sample) (*learning, error) {
	l := &learning{Params: p, task: t, shadow: shadow}
	users := shadow.Users()
	apart := twins.Apart(users, p.Seed, twins.Matching)
	l.learned = partOf(shadow, func(user int) bool { return !apart[user] })
	l.validated = partOf(shadow, func(user int) bool { return apart[user] })
	l.Users, l.ValidationUsers = len(users)-len(apart), len(apart)
	tower := &networks.Tower{Inputs: shadow.Values, Units: []int{p.Units, p.Units}}
	var err error
	if l.network, err = networks.NewPairs(tower, tower, min(p.Batch, p.Pairs)); err != nil {
		return nil, tasks.Permanent(err)
	}
	return l, nil
}

// learn trains the network.
func (l *learning) learn(ctx context.Context) error {
	row := func(i int) []float32 { return l.shadow.Row(l.learned.rows[i]) }
	l.training = twins.Training{
		Task: l.task, Network: l.network, Seed: l.Seed, Number: twins.Matching,
		Epochs: l.Epochs, Batch: l.Batch, LearningRate: l.LearningRate,
		Draw: func(epoch int) ([]sameuser.Drawn, error) {
			return draw(&l.learned, l.Seed, trainingPairs+epoch, l.Pairs)
		},
		First: row, Second: row, Validate: l.validate,
	}
	return l.training.Run(ctx, &l.Learned)
}

// Numbers of the draws of pairs.
const (
	validationPairs = 1 + iota
	anonymousPairs
	shadowPairs
	seenPairs
	unseenPairs
	trainingPairs // and so on, one for each epoch
)

func draw(p *part, seed uint64, number, n int) ([]sameuser.Drawn, error) {
	drawn, err := sameuser.Draw(p.updates, p.updates, n, seeds.Stream(seed, seeds.UpdatePairs, uint64(number)))
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("updates of shadow devices for audit.matching: %w", err))
	}
	return drawn, nil
}

// validate is the average precision of pairs of the validation's users.
func (l *learning) validate() (float64, error) {
	drawn, err := draw(&l.validated, l.Seed, validationPairs, l.Pairs)
	if err != nil {
		return 0, err
	}
	embedded, err := l.embed(l.shadow, l.validated.rows)
	if err != nil {
		return 0, err
	}
	scored := make([]sameuser.Pair, len(drawn))
	for i, d := range drawn {
		scored[i] = sameuser.Pair{A: l.validated.updates[d.A].User, B: l.validated.updates[d.B].User, Score: l.network.Logit(embedded.Row(d.A), embedded.Row(d.B))}
	}
	return sameuser.AveragePrecision(scored)
}

func (l *learning) embed(s *observed.Sample, rows []int) (*networks.Embedding, error) {
	return l.network.First(len(rows), func(i int) []float32 { return s.Row(rows[i]) })
}
