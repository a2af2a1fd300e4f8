// Package attributes infers from updates attributes of users that are independent of the model's
// task (Melis et al. 2019), and measures whether attribute and identity improve each other's inference
// (Orekondy et al. 2018, section 6.1.3 and table 4).
//
//	audits/attributes  three networks: for the attribute, for the identity, and for both
package attributes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/models/optimizers"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	Values []Value `json:"values"`
	Network
}

// Kind trains and measures. Its inputs are those of observed.Inputs and observed.NamesInputs, its metrics an
// Outcome. It needs memory for twice the values of Updates updates and four times the network.
var Kind = tasks.Kind{Name: "audits/attributes", Version: 3, Class: tasks.Compute, Run: audits.Measuring(measure)}

func measure(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	w, err := p.read(ctx, t)
	if err != nil {
		return nil, err
	}
	v := &Outcome{Users: w.usersByValue(), Majority: w.majority()}
	if _, err := w.network(ctx, 0, &v.Attribute, attribute); err != nil {
		return nil, err
	}
	named, err := w.network(ctx, 1, &v.Identity, identity)
	if err != nil {
		return nil, err
	}
	v.ByIdentity = w.accuracy(devices.Seen, func(row int) bool {
		return w.values[w.named[named[0][row]]] == w.anonymous.labels[attribute][row]
	}, false)
	_, err = w.network(ctx, 2, &v.Joint, attribute, identity)
	return v, err
}

// Tasks of the networks.
const (
	attribute = iota
	identity
	allTasks
)

// labelled are updates with their labels by task, which may be unknown.
type labelled struct {
	*observed.Sample
	labels [allTasks][]int
}

type world struct {
	*Params
	task              *tasks.Task
	shadow, anonymous labelled
	// learned and validated are rows of shadow.
	learned, validated []int
	classes            [allTasks]int
	named              []int // users whose identity is a class
	values             []int // by user
	mostFrequent       int   // the most frequent value of learned updates
}

// firstSample numbers the shadow sample in an experiment.
const firstSample = 2

func (p *Params) read(ctx context.Context, t *tasks.Task) (w *world, err error) {
	w = &world{Params: p, task: t}
	if w.values, err = readValues(ctx, t, p.Values); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("audit.attributes: %w", err))
	}
	r, err := p.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	w.shadow.Sample, w.anonymous.Sample, err = r.Samples(ctx, p.Seed, firstSample, p.Updates, func(o *observed.Observation) bool {
		return o.User < len(w.values) && w.values[o.User] != unknown
	})
	if err != nil {
		return nil, err
	}
	w.label()
	return w, w.check()
}

// label numbers the classes of each task, and keeps a tenth of the shadow updates for the validation.
func (w *world) label() {
	seen := lists.Filter(w.shadow.Of, func(o observed.Observation) bool { return o.Set == devices.Seen })
	w.named = lists.Distinct(lists.Map(seen, func(o observed.Observation) int { return o.User }))
	w.classes = [allTasks]int{len(w.Values), len(w.named)}
	for _, s := range []*labelled{&w.shadow, &w.anonymous} {
		for _, o := range s.Of {
			number, found := slices.BinarySearch(w.named, o.User)
			if !found || o.Set != devices.Seen {
				number = unknown
			}
			s.labels[attribute] = append(s.labels[attribute], w.values[o.User])
			s.labels[identity] = append(s.labels[identity], number)
		}
	}
	order := seeds.Stream(w.Seed, seeds.NetworkValidation, attributeNetwork).Perm(len(w.shadow.Of))
	apart := (len(order) + 9) / 10
	w.validated, w.learned = order[:apart], order[apart:]
}

// attributeNetwork numbers the first of these networks in an experiment.
const attributeNetwork = 1

// check returns an error for a class without learned updates, and for an empty trial. It finds the most
// frequent value.
func (w *world) check() error {
	counts := make([]int, len(w.Values))
	for _, row := range w.learned {
		counts[w.shadow.labels[attribute][row]]++
	}
	if i := slices.Index(counts, 0); i >= 0 {
		return tasks.Permanent(fmt.Errorf("no recorded update of a shadow device of a user with the value %q of audit.attributes; record more rounds, or leave the value out", w.Values[i].Value))
	}
	w.mostFrequent = slices.Index(counts, slices.Max(counts))
	if len(w.anonymous.Of) == 0 {
		return tasks.Permanent(errors.New("no recorded update of an anonymous device of a user with a value of audit.attributes; record more rounds"))
	}
	if len(w.named) < 2 {
		return tasks.Permanent(fmt.Errorf("shadow devices of %d users with a value of audit.attributes were recorded; expected 2 at least to tell apart: record more rounds", len(w.named)))
	}
	return nil
}

// network trains network i on the tasks, sets its outcome, and returns its guesses of each for the anonymous
// updates.
func (w *world) network(ctx context.Context, i int, o *AttackOutcome, on ...int) (guesses [][]int, err error) {
	classes := lists.Map(on, func(task int) int { return w.classes[task] })
	l := learning{world: w, on: on, number: attributeNetwork + uint64(i)}
	l.network, err = networks.NewClassifier(networks.Config{Inputs: w.shadow.Values, Hidden: []int{w.Units}, Classes: classes}, min(w.Batch, len(w.learned)))
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	if err := l.learn(ctx); err != nil {
		return nil, err
	}
	if guesses, err = l.guess(&w.anonymous); err != nil {
		return nil, err
	}
	o.Epochs, o.Best = l.epochs, l.bestEpoch
	for j, task := range on {
		w.score(o, task, guesses[j])
	}
	return guesses, nil
}

type learning struct {
	*world
	on                []int
	number            uint64
	network           *networks.Classifier
	epochs, bestEpoch int
}

// patience is the number of epochs without a better validation after which the training ends.
const patience = 10

// SGD as in Orekondy et al. 2018, section 4.3: the rate of step t, from 0, is divided by 1 +
// decay t.
const (
	momentum = 0.9
	decay    = 1e-6
)

// learn trains until the validation's loss stops falling, and keeps the best parameters.
func (l *learning) learn(ctx context.Context) error {
	params := l.network.Graph().Params
	l.network.Graph().Init(seeds.Stream(l.Seed, seeds.NetworkWeights, l.number))
	optimizer, err := optimizers.New(optimizers.Config{Kind: optimizers.Momentum, Momentum: momentum}, len(params))
	if err != nil {
		return err
	}
	steps, bestLoss, best := 0, math.Inf(1), []float32(nil)
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
			optimizer.Step(params, gradient, l.LearningRate/(1+float64(decay*float64(steps))))
			steps++
		}
		l.epochs++
		loss, err := l.network.Loss(l.of(l.validated))
		if err != nil {
			return err
		}
		if loss < bestLoss || best == nil {
			bestLoss, l.bestEpoch, best = loss, l.epochs, append(best[:0], params...)
		}
		l.task.Progress(tasks.Progress{Done: int64(l.epochs), Total: int64(l.Epochs)})
	}
	copy(params, best)
	return nil
}

// of returns the shadow updates of the rows in the network's form.
func (l *learning) of(rows []int) (examples int, row func(i int) []float32, labels [][]int) {
	labels = lists.Map(l.on, func(task int) []int {
		return lists.Map(rows, func(row int) int { return l.shadow.labels[task][row] })
	})
	return len(rows), func(i int) []float32 { return l.shadow.Row(rows[i]) }, labels
}

// guess returns, by task, the class with the highest logit of each update, the first of equals.
func (l *learning) guess(s *labelled) ([][]int, error) {
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

const unknown = -1 // the value of users without one

// valueOf returns the number of a user's value, or unknown. Two values are an error.
func valueOf(values []Value, name string) (number int, err error) {
	number = unknown
	for i, v := range values {
		if !observed.Patterns(v.Users).Fit(name) {
			continue
		}
		if number != unknown {
			return unknown, fmt.Errorf("user %q has two values, %q and %q; expected one at most", name, values[number].Value, v.Value)
		}
		number = i
	}
	return number, nil
}

func readValues(ctx context.Context, t *tasks.Task, values []Value) ([]int, error) {
	names, err := observed.ReadNames(ctx, t)
	if err != nil {
		return nil, err
	}
	ofName := map[string]int{"": unknown}
	for _, name := range names.Source {
		if ofName[name], err = valueOf(values, name); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		if err := observed.Patterns(v.Users).CheckMatches(names.Source, fmt.Sprintf("has the value %q", v.Value)); err != nil {
			return nil, err
		}
	}
	return lists.Map(names.Users, func(name string) int { return ofName[name] }), nil
}

// score sets the accuracies of a task's guesses.
func (w *world) score(o *AttackOutcome, task int, guesses []int) {
	right := func(row int) bool { return guesses[row] == w.anonymous.labels[task][row] }
	if task == identity {
		o.Identity = w.accuracy(devices.Seen, right, false)
		return
	}
	o.Attribute, o.Unseen = w.accuracy(devices.Seen, right, true), w.accuracy(devices.Unseen, right, true)
}

func (w *world) isMostFrequent(row int) bool {
	return w.anonymous.labels[attribute][row] == w.mostFrequent
}

func (w *world) majority() Majority {
	return Majority{
		Value: w.Values[w.mostFrequent].Value,
		Seen:  w.accuracy(devices.Seen, w.isMostFrequent, false), Unseen: w.accuracy(devices.Unseen, w.isMostFrequent, false),
	}
}

func (w *world) usersByValue() []Users {
	all := lists.Map(w.Values, func(v Value) Users { return Users{Value: v.Value} })
	for _, user := range w.shadow.Users() {
		all[w.values[user]].Shadow++
	}
	for _, user := range w.anonymous.Users() {
		all[w.values[user]].Anonymous++
	}
	return all
}

// accuracy returns the share of right guesses for the anonymous updates of a set and, if compared, its
// comparison with always guessing the most frequent value; nil without an update. Users count in the order of
// their first update.
func (w *world) accuracy(set devices.Set, right func(row int) bool, compared bool) *Accuracy {
	var hits, most, sent []float64 // updates by user
	number := map[int]int{}
	for row, o := range w.anonymous.Of {
		if o.Set != set {
			continue
		}
		i, known := number[o.User]
		if !known {
			i = len(sent)
			number[o.User] = i
			hits, most, sent = append(hits, 0), append(most, 0), append(sent, 0)
		}
		sent[i]++
		if right(row) {
			hits[i]++
		}
		if w.isMostFrequent(row) {
			most[i]++
		}
	}
	if len(sent) == 0 {
		return nil
	}
	bounds, all := Interval(w.Seed, hits, sent, sent), floats.Sum(sent)
	a := &Accuracy{Users: len(sent), Updates: int(all), Accuracy: floats.Sum(hits) / all, Low: bounds.Low, High: bounds.High}
	if compared && floats.Sum(most) > 0 {
		a.FactorLow = new(Interval(w.Seed, hits, most, sent).Low)
	}
	return a
}

const resamples = 1000

// Interval returns the interval over users of the ratio of two counts of updates. The unseen user has sent
// the mean number of updates, all of which count below.
func Interval(seed uint64, hits, below, sent []float64) ranking.Interval {
	r := ranking.Resampling{Stream: seeds.Stream(seed, seeds.AttributeInterval), Groups: []int{len(hits)}, Resamples: resamples}
	mean := ranking.Mean(sent)
	return r.Interval(audits.Confidence, ranking.OfRatio(hits, below, 0, mean, mean))
}
