// Package twins trains networks that tell whether two vectors belong to one user, by pairs of
// which half do (Orekondy et al. 2018, section 4.3).
package twins

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/plural"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/models/optimizers"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/sameuser"
)

// Networks of an experiment that are trained on pairs, by which random streams tell them
// apart. Those between are of audit.attributes.
const (
	Matching   = 0
	CrossModal = 4
)

// Apart draws the users who say when to stop: a fifth, two at least, which pairs of two users
// need.
func Apart(users []int, seed, network uint64) map[int]bool {
	const share = 0.2
	apart := map[int]bool{}
	for _, i := range seeds.Stream(seed, seeds.NetworkValidation, network).Perm(len(users))[:min(len(users), max(2, int(share*float64(len(users)))))] {
		apart[users[i]] = true
	}
	return apart
}

// Training is by RMSProp.
type Training struct {
	Task    *tasks.Task
	Network *networks.Pairs
	// Seed and Number, of the network, name the stream that initial weights are drawn from.
	Seed, Number uint64
	Epochs       int
	Batch        int // pairs
	LearningRate float64
	// Draw draws the pairs of an epoch, from 0.
	Draw func(epoch int) ([]sameuser.Drawn, error)
	// First and Second are the vectors of a pair, by its numbers A and B.
	First, Second func(i int) []float32
	// Validate is how well the network tells pairs of users that it does not learn from: the
	// average precision.
	Validate func() (float64, error)
}

// Learned says what a network was trained on.
type Learned struct {
	// Users are those it has learned from, ValidationUsers those that said when to stop.
	Users           int `json:"users"`
	ValidationUsers int `json:"validation_users"`
	// Course has what each epoch gave. The network is that after epoch Best, from 1.
	Course []Epoch `json:"course"`
	Best   int     `json:"best"`
	// Networks is the average precision of anonymous pairs by several networks, this one among
	// them, that differ in their initial values alone; nil where one was trained.
	Networks *audits.Estimate `json:"networks,omitempty"`
}

// String says how long the training went on: "stopped by 5 users after epoch 12 of 20".
func (l *Learned) String() string {
	text := fmt.Sprintf("stopped by %s after epoch %d of %d", plural.Of(l.ValidationUsers, "user"), l.Best, len(l.Course))
	if l.Best == len(l.Course) {
		text += audits.LastEpoch(l.Best)
	}
	return text
}

// Chance says in how far the network's initial values decide the average precision. field is the
// block's path in the experiment file.
func (l *Learned) Chance(field string) string {
	if e := l.Networks; e != nil && e.SD != nil {
		return fmt.Sprintf("; AP of anonymous pairs by %d networks from other initial values %.1f, standard deviation %.1f", e.N, 100*float64(e.Mean), 100**e.SD)
	}
	return "; the intervals hold the chance of users, not that of the network's initial values: " + field + ".networks above 1 measures it"
}

// Epoch is what an epoch of training gave.
type Epoch struct {
	// Loss is the mean cross-entropy of its pairs, in nats.
	Loss float64 `json:"loss"`
	// AP is the average precision of the validation's pairs.
	AP float64 `json:"ap"`
}

// Again trains n more networks, which differ from the first in their initial values alone, and
// returns the estimate of the average precision over all: that of the first is given, and ap
// measures the others. It returns nil for no more networks. The network is the first one again
// afterwards.
func (t *Training) Again(ctx context.Context, n int, first float64, ap func() (float64, error)) (*audits.Estimate, error) {
	if n == 0 {
		return nil, nil
	}
	params := t.Network.Graph().Params
	kept := slices.Clone(params)
	defer copy(params, kept)
	all := []float64{first}
	for k := range n {
		if err := t.run(ctx, new(Learned), seeds.Stream(t.Seed, seeds.NetworkWeights, t.Number, uint64(k+1))); err != nil {
			return nil, err
		}
		value, err := ap()
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return audits.NewEstimate(all), nil
}

// Run trains for all epochs; the network is that after the one with the best validation, of equal
// ones the first. It fills in the course.
func (t *Training) Run(ctx context.Context, learned *Learned) error {
	return t.run(ctx, learned, seeds.Stream(t.Seed, seeds.NetworkWeights, t.Number))
}

func (t *Training) run(ctx context.Context, learned *Learned, weights *rand.Rand) error {
	config, err := optimizers.Defaults(optimizers.RMSProp)
	if err != nil {
		return err
	}
	graph, best := t.Network.Graph(), []float32(nil)
	graph.Init(weights)
	optimizer, err := optimizers.New(config, len(graph.Params))
	if err != nil {
		return err
	}
	for number := range t.Epochs {
		loss, err := t.epoch(ctx, number, optimizer)
		if err != nil {
			return err
		}
		ap, err := t.Validate()
		if err != nil {
			return err
		}
		learned.Course = append(learned.Course, Epoch{loss, ap})
		if len(learned.Course) == 1 || ap > learned.Course[learned.Best-1].AP {
			learned.Best = number + 1
			best = append(best[:0], graph.Params...)
		}
		t.Task.Progress(tasks.Progress{Done: int64(number + 1), Total: int64(t.Epochs)})
	}
	copy(graph.Params, best)
	return nil
}

// epoch trains on newly drawn pairs, and returns the mean loss.
func (t *Training) epoch(ctx context.Context, number int, optimizer optimizers.Optimizer) (loss float64, err error) {
	drawn, err := t.Draw(number)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(drawn, t.Batch) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		batchLoss, gradient, err := t.learn(batch)
		if err != nil {
			return 0, err
		}
		optimizer.Step(t.Network.Graph().Params, gradient, t.LearningRate)
		optimizers.FlushSubnormals(optimizer)
		loss += float64(batchLoss * float64(len(batch)) / float64(len(drawn)))
	}
	return loss, nil
}

func (t *Training) learn(batch []sameuser.Drawn) (loss float64, gradient []float32, err error) {
	same := make([]bool, len(batch))
	for i, d := range batch {
		same[i] = d.Same
	}
	return t.Network.Learn(same,
		func(i int) []float32 { return t.First(batch[i].A) },
		func(i int) []float32 { return t.Second(batch[i].B) })
}
