// Package crossmodal trains a network on pairs of the adversary's own updates and of vectors
// that say something of users in another form than the data, such as texts of users whose
// images are trained on, and asks it of anonymous updates whether they are of the user of a
// vector (Orekondy et al. 2018, sections 4.3 and 6.1.1, figure 3c).
//
//	audits/given-vectors  those that the file gives
//	audits/word-vectors   mean word vectors of the users' priors
//	audits/cross-modal    trains the network, and measures it
package crossmodal

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
	"coalmine/tasks/audits/updates/twins"
	"coalmine/tasks/devices"
)

// Params are the parameters of audits/cross-modal.
type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Pairs is how many the network is trained on in an epoch, and measured on.
	Pairs int `json:"pairs"`
	// Units of the layer of each encoder.
	Units        int     `json:"units"`
	Epochs       int     `json:"epochs"`
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// Updates is how many of the shadow, and how many of the anonymous updates are looked
	// at, at most.
	Updates int `json:"updates"`
	// Centre has the network see what updates differ by from the mean of their round, and
	// vectors from their mean.
	Centre bool `json:"centre,omitempty"`
	// Again is how many more networks are trained, from other initial values.
	Again int `json:"again,omitempty"`
}

// VectorsInput is a node with vectors of users.
const VectorsInput = "vectors"

// Kind trains and measures. Its inputs are those of observed.Inputs and VectorsInput, its
// metrics an Outcome, its blob PairsBlob. Memory is twice the values of Updates updates, and four
// times the network.
var Kind = tasks.Kind{Name: "audits/cross-modal", Version: 3, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	v, err := readVectors(ctx, t)
	if err != nil {
		return err
	}
	p.prepare(v)
	w, err := p.load(ctx, t, v)
	if err != nil {
		return err
	}
	if err := w.learn(ctx); err != nil {
		return err
	}
	return w.measure(ctx)
}

// prepare centres and normalizes vectors as the updates are.
func (p *Params) prepare(v *Vectors) {
	mean := make([]float64, v.Values)
	for i := range v.Users {
		for j, x := range v.Row(i) {
			mean[j] += float64(x) / float64(len(v.Users))
		}
	}
	for i := range v.Users {
		row := v.Row(i)
		for j := range row {
			if p.Centre {
				row[j] = float32(float64(row[j]) - mean[j])
			}
		}
		if norm := math.Sqrt(kernels.SquaredNorm(row)); norm > 0 && !p.Raw {
			kernels.Scale(float32(1/norm), row)
		}
	}
}

// world is what the network learns from and is asked of.
type world struct {
	*Params
	task     *tasks.Task
	vectors  *Vectors
	network  *networks.Pairs
	training twins.Training
	twins.Learned
	// Updates whose users have a vector: of shadow devices, and of anonymous ones that are not
	// held out.
	shadow, anonymous  *observed.Sample
	learned, validated *part
}

// part is some rows of a sample, and the vectors of some users: those that pairs are drawn of.
type part struct {
	sample  *observed.Sample
	rows    []int
	owners  []int // of each row, the place of its user's vector
	vectors []int // of all their users
}

func (w *world) partOf(s *observed.Sample, fits func(o *observed.Observation) bool) *part {
	p := &part{sample: s}
	for i := range s.Of {
		if o := &s.Of[i]; fits(o) {
			at, _ := slices.BinarySearch(w.vectors.Users, o.User)
			p.rows, p.owners = append(p.rows, i), append(p.owners, at)
		}
	}
	p.vectors = slices.Compact(slices.Sorted(slices.Values(p.owners)))
	return p
}

// Samples of updates, after those of other audits.
const (
	shadowSample    = 4
	anonymousSample = 5
)

// load reads the updates, and divides those of shadow devices by their users.
func (p *Params) load(ctx context.Context, t *tasks.Task, v *Vectors) (w *world, err error) {
	w = &world{Params: p, task: t, vectors: v}
	r, err := p.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	has := func(o *observed.Observation) bool {
		_, there := slices.BinarySearch(v.Users, o.User)
		return there
	}
	if w.shadow, err = r.Sample(ctx, p.Seed, shadowSample, p.Updates, func(o *observed.Observation) bool { return o.Shadow && has(o) }); err != nil {
		return nil, err
	}
	w.anonymous, err = r.Sample(ctx, p.Seed, anonymousSample, p.Updates, func(o *observed.Observation) bool {
		return !o.Shadow && o.Set != devices.HeldOut && has(o)
	})
	if err != nil {
		return nil, err
	}
	if p.Centre {
		if err := r.Centre(ctx, w.shadow, w.anonymous); err != nil {
			return nil, err
		}
	}
	users := w.shadow.Users()
	apart := twins.Apart(users, p.Seed, twins.CrossModal)
	w.learned = w.partOf(w.shadow, func(o *observed.Observation) bool { return !apart[o.User] })
	w.validated = w.partOf(w.shadow, func(o *observed.Observation) bool { return apart[o.User] })
	w.Users, w.ValidationUsers = len(users)-len(apart), len(apart)
	if w.network, err = p.newNetwork(w.shadow.Values, v.Values); err != nil {
		return nil, tasks.Permanent(err)
	}
	return w, nil
}

// newNetwork has an encoder for updates and one for vectors, of one layer each.
func (p *Params) newNetwork(update, vector int) (*networks.Pairs, error) {
	first, second := &networks.Tower{Inputs: update, Units: []int{p.Units}}, &networks.Tower{Inputs: vector, Units: []int{p.Units}}
	return networks.NewPairs(first, second, min(p.Batch, p.Pairs))
}

// learn trains the network.
func (w *world) learn(ctx context.Context) error {
	w.training = twins.Training{
		Task: w.task, Network: w.network, Seed: w.Seed, Number: twins.CrossModal,
		Epochs: w.Epochs, Batch: w.Batch, LearningRate: w.LearningRate,
		Draw:  func(epoch int) ([]sameuser.Drawn, error) { return w.learned.draw(w.Params, trainingPairs+epoch) },
		First: w.learned.row, Second: w.vectors.Row, Validate: w.validate,
	}
	return w.training.Run(ctx, &w.Learned)
}

// Numbers of the draws of pairs, and of their bootstraps.
const (
	validationPairs = iota
	anonymousPairs
	seenPairs
	unseenPairs
	trainingPairs // and so on, one for each epoch
)

// draw draws pairs of an update, by its place in the part, and of a vector: each update once
// with that of its user, and once with that of another.
func (p *part) draw(params *Params, number int) (drawn []sameuser.Drawn, err error) {
	if len(p.vectors) < 2 {
		return nil, tasks.Permanent(fmt.Errorf("audit.cross_modal: of the users with a vector only %d have sent one of the %d recorded updates that are looked at here; expected 2 to tell apart: give vectors of more users, or train and record more rounds", len(p.vectors), len(p.rows)))
	}
	rng := seeds.Stream(params.Seed, seeds.VectorPairs, uint64(number))
	for len(drawn) < params.Pairs {
		i := rng.IntN(len(p.rows))
		drawn = append(drawn, sameuser.Drawn{A: i, B: p.owners[i], Same: true}, sameuser.Drawn{A: i, B: p.other(rng, p.owners[i])})
	}
	return drawn, nil
}

// other is the vector of another user.
func (p *part) other(rng *rand.Rand, than int) int {
	for {
		if v := p.vectors[rng.IntN(len(p.vectors))]; v != than {
			return v
		}
	}
}

func (p *part) row(i int) []float32 { return p.sample.Row(p.rows[i]) }

// score has the network score the pairs of a part.
func (w *world) score(p *part, drawn []sameuser.Drawn) ([]sameuser.Pair, error) {
	updates, err := w.network.First(len(p.rows), p.row)
	if err != nil {
		return nil, err
	}
	vectors, err := w.network.Second(len(w.vectors.Users), w.vectors.Row)
	if err != nil {
		return nil, err
	}
	pairs := make([]sameuser.Pair, len(drawn))
	for i, d := range drawn {
		pairs[i] = sameuser.Pair{
			A: int32(w.vectors.Users[p.owners[d.A]]), B: int32(w.vectors.Users[d.B]),
			Score: w.network.Logit(updates.Row(d.A), vectors.Row(d.B)),
		}
	}
	return pairs, nil
}

// precision is the average precision of the pairs of a part.
func (w *world) precision(p *part, drawn []sameuser.Drawn) (float64, error) {
	pairs, err := w.score(p, drawn)
	if err != nil {
		return 0, err
	}
	return sameuser.AveragePrecision(pairs)
}

// validate is the average precision of pairs of the validation's users.
func (w *world) validate() (float64, error) {
	drawn, err := w.validated.draw(w.Params, validationPairs)
	if err != nil {
		return 0, err
	}
	return w.precision(w.validated, drawn)
}
