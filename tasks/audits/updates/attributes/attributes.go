// Package attributes infers from updates what users are like, though the models that are
// trained have nothing to do with it (Melis et al. 2019), and asks whether that and naming the
// user help each other (Orekondy et al. 2018, section 6.1.3 and table 4).
//
//	audits/attributes  three networks: for the attribute, for the identity, and for both
package attributes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/models/optimizers"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// Params are the parameters of audits/attributes.
type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	Values []Value `json:"values"`
	// Units of the hidden layer.
	Units        int     `json:"units"`
	Epochs       int     `json:"epochs"`
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// Updates is how many of the shadow, and how many of the anonymous updates are looked
	// at, at most.
	Updates int `json:"updates"`
}

// Kind trains and measures. Its inputs are those of observed.Inputs and observed.NamesInputs,
// its metrics an Outcome. Memory is twice the values of Updates
// updates, and four times the network.
var Kind = tasks.Kind{Name: "audits/attributes", Version: 3, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	w, err := p.read(ctx, t)
	if err != nil {
		return err
	}
	v := &Outcome{Users: w.usersByValue(), Majority: w.majority()}
	var identities []int
	for i, x := range []struct {
		tasks []int
		into  **AttackOutcome
	}{{[]int{attribute}, &v.Attribute}, {[]int{identity}, &v.Identity}, {[]int{attribute, identity}, &v.Joint}} {
		guesses, o, err := w.network(ctx, i, x.tasks)
		if err != nil {
			return err
		}
		if *x.into = o; slices.Equal(x.tasks, []int{identity}) {
			identities = guesses[0]
		}
	}
	v.ByIdentity = w.byIdentity(identities)
	return t.SetMetrics(v)
}

// Tasks of the networks.
const (
	attribute = iota
	identity
	allTasks
)

// world is what the adversary knows, and what is asked of it.
type world struct {
	*Params
	task *tasks.Task
	// shadow is learned from, but for the rows that say when to stop.
	shadow, anonymous  *observed.Sample
	learned, validated []int
	// labels of the shadow and the anonymous updates, by task; negative ones are not known.
	known, asked [allTasks][]int
	classes      [allTasks]int
	// named are the users whose identity is a class.
	named  []int
	values []int // by user
}

func (p *Params) read(ctx context.Context, t *tasks.Task) (w *world, err error) {
	w = &world{Params: p, task: t}
	if w.values, err = readValues(ctx, t, p.Values); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("audit.attributes: %w", err))
	}
	r, err := p.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	if w.shadow, err = r.Sample(ctx, p.Seed, shadowSample, p.Updates, func(o *observed.Observation) bool { return o.Shadow && w.valueOf(o) >= 0 }); err != nil {
		return nil, err
	}
	w.anonymous, err = r.Sample(ctx, p.Seed, anonymousSample, p.Updates, func(o *observed.Observation) bool {
		return !o.Shadow && o.Set != devices.HeldOut && w.valueOf(o) >= 0
	})
	if err != nil {
		return nil, err
	}
	w.label()
	return w, w.check()
}

// Numbers of this audit's samples.
const (
	shadowSample = 2 + iota
	anonymousSample
)

func (w *world) valueOf(o *observed.Observation) int {
	if o.User >= len(w.values) {
		return unknown
	}
	return w.values[o.User]
}

// label numbers the classes of each task, and keeps a tenth of the shadow updates for the
// validation.
func (w *world) label() {
	for i := range w.shadow.Of {
		if o := &w.shadow.Of[i]; o.Set == devices.Seen {
			w.named = append(w.named, o.User)
		}
	}
	slices.Sort(w.named)
	w.named = slices.Compact(w.named)
	w.classes = [allTasks]int{len(w.Values), len(w.named)}
	for _, x := range []struct {
		sample *observed.Sample
		labels *[allTasks][]int
	}{{w.shadow, &w.known}, {w.anonymous, &w.asked}} {
		for i := range x.sample.Of {
			o := &x.sample.Of[i]
			number, found := slices.BinarySearch(w.named, o.User)
			if !found || o.Set != devices.Seen {
				number = unknown
			}
			x.labels[attribute] = append(x.labels[attribute], w.valueOf(o))
			x.labels[identity] = append(x.labels[identity], number)
		}
	}
	order := seeds.Stream(w.Seed, seeds.NetworkValidation, attributeNetwork).Perm(len(w.shadow.Of))
	apart := (len(order) + validationPart - 1) / validationPart
	w.validated, w.learned = order[:apart], order[apart:]
}

// validationPart: one of so many shadow updates says when a network has learned enough.
const validationPart = 10

// attributeNetwork is the first of this audit's networks among those of an experiment.
const attributeNetwork = 1

// check refuses a class of which nothing was learned, and nothing to ask.
func (w *world) check() error {
	for i, v := range w.Values {
		if !slices.ContainsFunc(w.learned, func(row int) bool { return w.known[attribute][row] == i }) {
			return tasks.Permanent(fmt.Errorf("no recorded update of a shadow device of a user with the value %q of audit.attributes; record more rounds, or leave the value out", v.Value))
		}
	}
	if len(w.anonymous.Of) == 0 {
		return tasks.Permanent(errors.New("no recorded update of an anonymous device of a user with a value of audit.attributes; record more rounds"))
	}
	if len(w.named) < 2 {
		return tasks.Permanent(fmt.Errorf("shadow devices of %d users with a value of audit.attributes were recorded; expected 2 at least to tell apart: record more rounds", len(w.named)))
	}
	return nil
}

// network trains number i, on some tasks, and asks it of the anonymous updates.
func (w *world) network(ctx context.Context, i int, on []int) (guesses [][]int, o *AttackOutcome, err error) {
	var classes []int
	for _, task := range on {
		classes = append(classes, w.classes[task])
	}
	n, err := networks.NewClassifier(networks.Config{Inputs: w.shadow.Values, Hidden: []int{w.Units}, Classes: classes}, min(w.Batch, len(w.learned)))
	if err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	l := learning{world: w, on: on, number: attributeNetwork + uint64(i), network: n, params: n.Graph().Params}
	n.Graph().Init(seeds.Stream(w.Seed, seeds.NetworkWeights, l.number))
	if err := l.learn(ctx); err != nil {
		return nil, nil, err
	}
	if guesses, err = l.guess(w.anonymous); err != nil {
		return nil, nil, err
	}
	o = &AttackOutcome{Epochs: l.epochs, Best: l.bestEpoch}
	for j, task := range on {
		w.score(o, task, guesses[j])
	}
	return guesses, o, nil
}

// learning is the training of one network.
type learning struct {
	*world
	on      []int
	number  uint64
	network *networks.Classifier
	params  []float32

	best              []float32
	bestLoss          float64
	epochs, bestEpoch int
}

// patience is how many epochs without a better validation end the training.
const patience = 10

// SGD as in Orekondy et al. 2018, section 4.3: the rate of step t, from 0, is divided by 1 +
// decay t.
const (
	momentum = 0.9
	decay    = 1e-6
)

// learn trains until the loss of the validation falls no more, and keeps what was best.
func (l *learning) learn(ctx context.Context) error {
	optimizer, err := optimizers.New(optimizers.Config{Kind: optimizers.Momentum, Momentum: momentum}, len(l.params))
	if err != nil {
		return err
	}
	steps := 0
	l.bestLoss = math.Inf(1)
	for l.epochs < l.Epochs && l.epochs-l.bestEpoch < patience {
		order := slices.Clone(l.learned)
		seeds.Stream(l.Seed, seeds.NetworkOrder, l.number, uint64(l.epochs)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for batch := range slices.Chunk(order, l.Batch) {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, gradient, err := l.network.Learn(l.of(batch))
			if err != nil {
				return err
			}
			optimizer.Step(l.params, gradient, l.LearningRate/(1+float64(decay*float64(steps))))
			steps++
		}
		l.epochs++
		loss, err := l.network.Loss(l.of(l.validated))
		if err != nil {
			return err
		}
		if loss < l.bestLoss || l.best == nil {
			l.bestLoss, l.bestEpoch = loss, l.epochs
			l.best = append(l.best[:0], l.params...)
		}
		l.task.Progress(tasks.Progress{Done: int64(l.epochs), Total: int64(l.Epochs)})
	}
	copy(l.params, l.best)
	return nil
}

// of has some shadow updates as the network takes them.
func (l *learning) of(rows []int) (examples int, row func(i int) []float32, labels [][]int) {
	labels = make([][]int, len(l.on))
	for i, task := range l.on {
		for _, row := range rows {
			labels[i] = append(labels[i], l.known[task][row])
		}
	}
	return len(rows), func(i int) []float32 { return l.shadow.Row(rows[i]) }, labels
}

// guess is the class with the highest logit of each update, by task; of equal ones the first.
func (l *learning) guess(s *observed.Sample) ([][]int, error) {
	logits, err := l.network.Logits(len(s.Of), s.Row)
	if err != nil {
		return nil, err
	}
	guesses := make([][]int, len(l.on))
	for i, task := range l.on {
		for row := range slices.Chunk(logits[i], l.classes[task]) {
			guesses[i] = append(guesses[i], max(0, slices.Index(row, kernels.Max(row))))
		}
	}
	return guesses, nil
}
