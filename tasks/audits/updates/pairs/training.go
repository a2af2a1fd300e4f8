package pairs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/models/networks"
	"coalmine/models/optimizers"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
)

// Fields are those of the block of an audit that trains a network on pairs.
type Fields struct {
	observed.ViewFields
	// Subtracts the round's mean update and, in cross_modal, the mean vector. Not in the paper.
	Centre bool `json:"centre" default:"false" also:"center"`
	// Pairs to measure, and to train on in an epoch; half of them of one user.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
	// Units of each layer: two of matching, one in each encoder of cross_modal.
	Units int `json:"units" default:"128" range:"[1,4096]" source:"Orekondy et al. 2018, section 4.3"`
	// Epochs; the best for pairs of validation users is kept.
	Epochs int `json:"epochs" default:"20" range:"[1,10000]" unit:"epochs"`
	// Networks with different initial weights. Results are for the first; the others show the spread. Absent: one.
	Networks int `json:"networks,omitzero" range:"[1,100]" unit:"networks"`
	// Pairs in a step.
	Batch int `json:"batch" default:"32" range:"[1,65536]" unit:"pairs"`
	// Learning rate of RMSProp.
	LearningRate float64 `json:"learning_rate" default:"0.001" range:"(0,1000]" source:"Orekondy et al. 2018, section 4.3"`
	// Maximum number of updates of shadow and of anonymous devices, drawn at random; a task holds all in memory.
	Updates int `json:"updates" default:"2000" range:"[10,100000]" unit:"updates"`
}

// Params returns the parameters of the task.
func (f *Fields) Params(s *audits.Setting) Params {
	return Params{
		Seed: s.Seed, View: f.View(s), Pairs: f.Pairs, Units: f.Units, Epochs: f.Epochs, Batch: f.Batch,
		LearningRate: f.LearningRate, Updates: f.Updates, Centre: f.Centre, Again: max(1, f.Networks) - 1,
	}
}

// Work counts the towers of both sides, for each pair.
func (f *Fields) Work(s *audits.Setting) float64 {
	return s.UpdatesWork(f.Units, 2*float64(max(1, f.Networks))*float64(f.Epochs)*float64(f.Pairs), audits.RMSPropWork/float64(2*f.Batch))
}

// Params are the parameters of a task that trains a network on pairs.
type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Pairs is the number of pairs of an epoch, and of a measurement.
	Pairs        int     `json:"pairs"`
	Units        int     `json:"units"` // per layer
	Epochs       int     `json:"epochs"`
	Batch        int     `json:"batch"`
	LearningRate float64 `json:"learning_rate"`
	// Updates bounds the shadow updates, and the anonymous ones.
	Updates int `json:"updates"`
	// Centre subtracts the mean of the round from updates, and their mean from vectors.
	Centre bool `json:"centre,omitempty"`
	// Again is the number of further networks, with other initial weights.
	Again int `json:"again,omitempty"`
}

// Read draws samples of the updates that fit, centred with Centre. number is the number of the first sample.
func (p *Params) Read(ctx context.Context, t *tasks.Task, number int, fits func(*observed.Observation) bool) (r *observed.Reader, shadow, anonymous *observed.Sample, err error) {
	if r, err = p.Open(ctx, t); err != nil {
		return nil, nil, nil, err
	}
	if shadow, anonymous, err = r.Samples(ctx, p.Seed, number, p.Updates, fits); err == nil && p.Centre {
		err = r.Centre(ctx, shadow, anonymous)
	}
	return r, shadow, anonymous, err
}

// Numbers of networks in an experiment, for their random streams. Numbers between them belong to audit.attributes.
const (
	Matching   = 0
	CrossModal = 4
)

// Training trains a network by RMSProp.
type Training struct {
	Params
	Task   *tasks.Task
	Number uint64 // Matching or CrossModal
	// Draw draws pairs of updates of shadow devices, by the number of the draw: Validation, or First for the
	// first epoch, and so on.
	Draw              func(updates *Side, number int) (*Comparison, error)
	Validation, First int
	Learned           Learned

	network            *networks.Pairs
	learned, validated *Side
}

// Learn trains a network of two towers for all epochs. It keeps the parameters after the first epoch with the
// best validation.
func (t *Training) Learn(ctx context.Context, shadow *observed.Sample, first, second *networks.Tower) (err error) {
	t.learned, t.validated = t.divide(shadow)
	if t.network, err = networks.NewPairs(first, second, min(t.Batch, t.Pairs)); err != nil {
		return tasks.Permanent(err)
	}
	return t.run(ctx, &t.Learned, seeds.Stream(t.Seed, seeds.NetworkWeights, t.Number))
}

// divide divides updates by user. A fifth of the users, at least two, validate.
func (t *Training) divide(s *observed.Sample) (learned, validated *Side) {
	const share = 0.2
	users, apart := s.Users(), map[int]bool{}
	for _, i := range seeds.Stream(t.Seed, seeds.NetworkValidation, t.Number).Perm(len(users))[:min(len(users), max(2, int(share*float64(len(users)))))] {
		apart[users[i]] = true
	}
	t.Learned.Users, t.Learned.ValidationUsers = len(users)-len(apart), len(apart)
	return SideOf(s, func(o *observed.Observation) bool { return !apart[o.User] }), SideOf(s, func(o *observed.Observation) bool { return apart[o.User] })
}

// Trial is a set of pairs on which the network is measured.
type Trial struct {
	Bootstrap int
	Draw      func() (*Comparison, error)
}

// Measure measures the network on trials, and calls take with each, its pairs in the order of their draw. The
// first must have pairs; further networks are measured on it, too. Other trials, such as pairs of unseen
// users in a closed world, may be absent.
func (t *Training) Measure(ctx context.Context, trials []Trial, take func(trial int, c *Comparison, list []Pair, m Measurement)) error {
	for i, x := range trials {
		c, err := x.Draw()
		if err != nil && i == 0 {
			return err
		}
		if err != nil {
			continue
		}
		list, err := t.score(c)
		if err != nil {
			return err
		}
		m, err := Measure(slices.Clone(list), t.Seed, x.Bootstrap)
		if err != nil {
			return err
		}
		take(i, c, list, m)
		if i > 0 {
			continue
		}
		if err := t.repeat(ctx, c, m.AP.Value); err != nil {
			return err
		}
	}
	return nil
}

func (t *Training) score(c *Comparison) ([]Pair, error) {
	first, err := t.network.First(len(c.First.Of), c.First.Row)
	if err != nil {
		return nil, err
	}
	second := first
	if c.Second != c.First {
		if second, err = t.network.Second(len(c.Second.Of), c.Second.Row); err != nil {
			return nil, err
		}
	}
	return c.Pairs(func(a, b int) float64 { return t.network.Logit(first.Row(a), second.Row(b)) }), nil
}

func (t *Training) averagePrecision(c *Comparison) (float64, error) {
	scored, err := t.score(c)
	if err != nil {
		return 0, err
	}
	return AveragePrecision(scored)
}

// Learned describes the training of a network.
type Learned struct {
	// Users is the number of users that it learned from. ValidationUsers validated it.
	Users           int `json:"users" doc:"number of users of the training"`
	ValidationUsers int `json:"validation_users" doc:"number of users of the validation"`
	// Course has all epochs. The network is the one after epoch Best, counted from 1.
	Course []Epoch `json:"course" doc:"after each epoch"`
	Best   int     `json:"best" doc:"epoch, from 1, of the state that is kept"`
	// Networks is the average precision of anonymous pairs by networks with other initial values, including
	// this one; nil for a single network.
	Networks *audits.Estimate `json:"networks,omitempty" doc:"of the average precision of anonymous pairs over networks with other initial values"`
}

// String returns a text such as "stopped by 5 users after epoch 12 of 20".
func (l *Learned) String() string {
	text := fmt.Sprintf("stopped by %s after epoch %d of %d", readable.Count(l.ValidationUsers, "user"), l.Best, len(l.Course))
	if l.Best == len(l.Course) {
		text += audits.LastEpoch(l.Best)
	}
	return text
}

// Chance describes the effect of initial values on the average precision. field is the path of the block.
func (l *Learned) Chance(field string) string {
	if e := l.Networks; e != nil && e.SD != nil {
		note := fmt.Sprintf("; AP of anonymous pairs by %d networks from other initial values %.1f, standard deviation %.1f", e.N, 100*float64(e.Mean), 100**e.SD)
		if e.Low != nil && e.High != nil {
			note += fmt.Sprintf(", 95%% interval of the networks' mean %.1f to %.1f", 100*max(0, *e.Low), 100*min(1, *e.High))
		}
		return note
	}
	return audits.UsersAlone + field + ".networks above 1 measures it"
}

// Spread returns the columns of Learned.Networks, by the audit's name.
func Spread[O any](name string, learned func(*O) *Learned) []audits.Measure {
	return []audits.Measure{
		{Name: name + "_networks_ap", Doc: "mean of " + name + "_ap over networks with other initial values", Of: audits.Of(func(v *O) *float64 { mean, _ := learned(v).spread(); return mean })},
		{Name: name + "_networks_sd", Doc: "standard deviation of " + name + "_ap over networks with other initial values", Of: audits.Of(func(v *O) *float64 { _, sd := learned(v).spread(); return sd })},
	}
}

// Row returns the row of the network's attack on anonymous pairs.
func (l *Learned) Row(row audits.Attack) audits.Attack {
	row.NetworksAP, row.NetworksSD = l.spread()
	return row
}

// spread returns the mean and the standard deviation over networks; nil for a single one.
func (l *Learned) spread() (mean, sd *float64) {
	if l.Networks == nil {
		return nil, nil
	}
	return new(float64(l.Networks.Mean)), l.Networks.SD
}

type Epoch struct {
	// Loss is the mean cross-entropy, in nats, AP the average precision of the validation.
	Loss float64 `json:"loss" doc:"mean cross-entropy of the validation, in nats"`
	AP   float64 `json:"ap" doc:"average precision of the validation"`
}

// repeat trains further networks from other initial weights, and sets Learned.Networks, by the average
// precision of pairs. first is the precision of the network, whose parameters it restores.
func (t *Training) repeat(ctx context.Context, c *Comparison, first float64) error {
	if t.Again == 0 {
		return nil
	}
	params := t.network.Graph().Params
	kept := slices.Clone(params)
	defer copy(params, kept)
	all := []float64{first}
	for k := range t.Again {
		if err := t.run(ctx, new(Learned), seeds.Stream(t.Seed, seeds.NetworkWeights, t.Number, uint64(k+1))); err != nil {
			return err
		}
		ap, err := t.averagePrecision(c)
		if err != nil {
			return err
		}
		all = append(all, ap)
	}
	t.Learned.Networks = audits.NewEstimate(all)
	return nil
}

func (t *Training) run(ctx context.Context, learned *Learned, weights *rand.Rand) error {
	config, err := optimizers.Defaults(optimizers.RMSProp)
	if err != nil {
		return err
	}
	graph, best := t.network.Graph(), []float32(nil)
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
		validation, err := t.Draw(t.validated, t.Validation)
		if err != nil {
			return err
		}
		ap, err := t.averagePrecision(validation)
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
	drawn, err := t.Draw(t.learned, t.First+number)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(drawn.Drawn, t.Batch) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		batchLoss, gradient, err := t.learn(drawn, batch)
		if err != nil {
			return 0, err
		}
		optimizer.Step(t.network.Graph().Params, gradient, t.LearningRate)
		optimizers.FlushSubnormals(optimizer)
		loss += float64(batchLoss * float64(len(batch)) / float64(len(drawn.Drawn)))
	}
	return loss, nil
}

func (t *Training) learn(c *Comparison, batch []IndexPair) (loss float64, gradient []float32, err error) {
	return t.network.Learn(lists.Map(batch, func(d IndexPair) bool { return d.Same }),
		func(i int) []float32 { return c.First.Row(batch[i].A) },
		func(i int) []float32 { return c.Second.Row(batch[i].B) })
}
