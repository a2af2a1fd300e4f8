// Package neighbours replays steps of the training on data that differ in one member, and tests by their
// outcomes whether the training is the mechanism for which its epsilon is proved.
//
//	audits/neighbours  the models before and after training, and the population -> the tests
//
// Package privacy/empirical/replay has the tests and their observations.
package neighbours

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/training"
)

type Params struct {
	Repeats    int     `json:"repeats"`
	Members    int     `json:"members"`
	FalseAlarm float64 `json:"false_alarm"`
	// Step is the training's step, Recipe its claim except for the population.
	Step   audits.Step    `json:"step"`
	Recipe privacy.Recipe `json:"recipe"`
}

// UsesProgram implements clientprograms.ProgramUser.
func (p Params) UsesProgram() *clientprograms.Program {
	switch s := p.Step; {
	case s.Round != nil:
		return s.Round.Clients.Program
	case s.Private != nil:
		return s.Private.Program
	}
	return nil
}

// Auditor replays steps.
//
// Inputs: "initial" and "model", the checkpoints to begin from; training.PopulationInput and
// training.ShardsInput as of the training, and external.VocabularyInput for a client's program. Its blob
// OutcomeBlob is an Outcome.
var Auditor = tasks.Kind{Name: "audits/neighbours", Version: 4, Class: tasks.Compute, Run: audits.Finds(OutcomeBlob, run)}

const InitialInput = "initial"

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "neighbours"

// Limits of the observations.
const (
	maxValues = 1 << 20 // values of the noise, in all rounds
	moves     = 16
	search    = 50 // multiple of the mean number of rounds until a member is drawn
	shrink    = 1.0 / (1 << 10)
	// magnify is the length of the replayed step in clip norms of the sum. It is large, so that rounding of
	// the parameters loses little.
	magnify = 1 << 20
)

func run(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	base, err := open(ctx, t, p.UsesProgram() != nil)
	if err != nil {
		return nil, err
	}
	step, claim, err := base.step(p)
	if err != nil {
		return nil, err
	}
	seen, err := replay.Observe(ctx, step, replay.Plan{
		Repeats: p.Repeats, States: len(base.states), Moves: moves, Search: search * claim.Population / claim.Cohort,
		NoiseMultiplier: claim.NoiseMultiplier, Columns: max(1, maxValues/p.Repeats),
		Progress: func(done int) { t.Progress(tasks.Progress{Done: int64(done), Total: int64(p.Repeats)}) },
	})
	if err != nil {
		return nil, err
	}
	if err := p.whiten(seen); err != nil {
		return nil, tasks.Permanent(err)
	}
	v := &Outcome{
		Finding: replay.Examine(claim, seen, p.FalseAlarm), Repeats: p.Repeats, Claimed: claim.NoiseMultiplier, ClaimedSensitivity: replay.Sensitivity,
		Delta: p.Recipe.Delta, Unit: p.Recipe.Unit, Neighbouring: p.Recipe.Sampling.Neighbouring(), Population: claim.Population,
	}
	if v.Moves == 0 {
		return nil, tasks.Permanent(fmt.Errorf("no member of the comparison took part in %s; expected a larger training.cohort, or fewer users", readable.Count(p.Repeats, "round")))
	}
	return v, tasks.Permanent(v.account(p.Recipe))
}

// replayer holds the common parts of both kinds of step.
type replayer struct {
	task       *tasks.Task
	runner     *tasks.Runner
	population *population.Population
	inputs     []tasks.Input // the data, and the vocabulary of a client's program
	network    models.Network
	states     []*tasks.RunnerNode
	params     [][]float32 // the trained parameters of the states
	held       []storage.Key
	number     int // number of the round
}

func open(ctx context.Context, t *tasks.Task, asks bool) (*replayer, error) {
	b := &replayer{task: t, runner: t.Runner()}
	for _, input := range []string{InitialInput, audits.ModelInput} {
		model, err := checkpoints.Read(ctx, t, input)
		if err != nil {
			return nil, err
		}
		data, err := t.Blob(ctx, input, tasks.ModelBlob)
		if err != nil {
			return nil, err
		}
		node, err := t.Input(input)
		if err != nil {
			return nil, err
		}
		h := tasks.NewHasher("replayed state") // by the model, because programs keep models by their keys
		h.Key(node)
		state := &tasks.RunnerNode{Spec: tasks.Spec{Key: h.Sum(), Kind: "audits/state"}, Blobs: map[string][]byte{tasks.ModelBlob: data, tasks.RowsBlob: []byte("[]")}}
		b.network, b.states, b.params = model.Network, append(b.states, state), append(b.params, model.Params[:model.Network.Trained()])
	}
	names := []string{training.ShardsInput}
	if asks {
		names = append(names, external.VocabularyInput)
	}
	for _, name := range names {
		key, err := t.Input(name)
		if err != nil {
			return nil, err
		}
		b.inputs = append(b.inputs, tasks.Input{Name: name, Key: key})
	}
	var err error
	b.population, err = population.Open(ctx, t, training.PopulationInput, training.ShardsInput)
	return b, err
}

func (b *replayer) step(p *Params) (replay.Step, replay.Claim, error) {
	c := replay.Claim{
		NoiseMultiplier: p.Recipe.NoiseMultiplier, Sampling: p.Recipe.Sampling, Cohort: p.Recipe.Cohort,
		Separation: p.Recipe.Separation, Participations: p.Recipe.Participations,
	}
	switch {
	case p.Step.Round != nil:
		if q := p.Recipe.ClipQuantile; q != nil {
			var err error
			if c.NoiseMultiplier, err = q.UpdateNoise(p.Recipe.NoiseMultiplier); err != nil {
				return nil, c, tasks.Permanent(err)
			}
		}
		c.Population = b.population.Users()
		return newRounds(b, p.Step.Round, p.Members), c, nil
	case p.Step.Private != nil:
		s, err := newSteps(b, p.Step.Private)
		if err != nil {
			return nil, c, err
		}
		c.Population = s.records
		return s, c, nil
	}
	return nil, c, tasks.Permanent(errors.New("no step of a private training; expected those of a round, or of a private step"))
}

// Parts implements replay.Step.
func (b *replayer) Parts() (list []replay.Part) {
	for _, tensor := range models.TrainedTensors(b.network) {
		list = append(list, replay.Part{Name: tensor.Name, Offset: tensor.Offset, Size: tensor.Size()})
	}
	return list
}

// begin forgets the previous round.
func (b *replayer) begin(number int) {
	for _, key := range b.held {
		b.runner.Forget(key)
	}
	b.held, b.number = nil, number
}

// write makes a population within the round.
func (b *replayer) write(ctx context.Context, name string, write func(ctx context.Context, t *tasks.Task) error) (tasks.Input, error) {
	kind := tasks.Kind{Name: "audits/population", Run: write}
	spec, err := tasks.NewSpec(kind, map[string]any{"round": b.number, "name": name}, b.inputs...)
	if err != nil {
		return tasks.Input{}, err
	}
	if b.runner.Node(spec.Key) == nil {
		if _, err := b.runner.Run(ctx, kind, spec); err != nil {
			return tasks.Input{}, err
		}
		b.held = append(b.held, spec.Key)
	}
	return tasks.Input{Name: training.PopulationInput, Key: spec.Key}, nil
}

// run runs a task of the training once. The caller forgets its outputs.
func (b *replayer) run(ctx context.Context, kind tasks.Kind, step, part int, params any, inputs ...tasks.Input) (*tasks.RunnerNode, error) {
	spec, err := tasks.NewSpec(kind, params, inputs...)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	h := tasks.NewHasher("replayed task")
	h.Key(spec.Key)
	h.Uint(uint64(step))
	h.Uint(uint64(part))
	spec.Key, spec.Step, spec.Part, spec.Terms = h.Sum(), step, part, b.task.Terms
	n, err := b.runner.Run(ctx, kind, spec)
	if err == nil && n.Differs {
		b.task.DeclareNondeterministic()
	}
	return n, err
}

// previous returns the state from which a task begins, with the training's other outputs.
func (b *replayer) previous(state int, beside map[string][]byte) tasks.Input {
	n := *b.states[state]
	n.Blobs = map[string][]byte{}
	for _, blobs := range []map[string][]byte{b.states[state].Blobs, beside} {
		maps.Copy(n.Blobs, blobs)
	}
	b.runner.Give(&n)
	return tasks.Input{Name: tasks.PreviousInput, Key: n.Key}
}

// released reads the change of a state's parameters in a step, times sign and divided by magnify.
func (b *replayer) released(ctx context.Context, n *tasks.RunnerNode, state int, sign float64) ([]float32, error) {
	t := b.runner.Task(tasks.Spec{Kind: Auditor.Name, Inputs: []tasks.Input{{Name: audits.ModelInput, Key: n.Key}}}, nil)
	after, err := checkpoints.ReadTrained(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	b.runner.Forget(n.Key)
	return lists.Make(len(b.params[state]), func(i int) float32 {
		return float32(sign * (float64(after.Params[i]) - float64(b.params[state][i])) / magnify)
	}), nil
}

// cohort returns a function that returns the random stream of a round's cohort.
func cohort(seed uint64) func(int) (*rand.Rand, error) {
	return func(number int) (*rand.Rand, error) { return seeds.Stream(seed, seeds.Cohort, uint64(number)), nil }
}

// account adds the proved epsilon of the measured noise.
func (v *Outcome) account(recipe privacy.Recipe) error {
	recipe.Population, recipe.LossDistribution = v.Population, false
	total := recipe.NoiseMultiplier / v.Claimed
	for _, of := range []struct {
		epsilon    **float64
		multiplier float64
	}{{&v.Epsilon, v.Noise.Measured}, {&v.EpsilonLow, v.Noise.High}, {&v.EpsilonHigh, v.Noise.Low}} {
		recipe.NoiseMultiplier = total * of.multiplier
		report, err := privacy.Account(recipe)
		if err != nil {
			return fmt.Errorf("epsilon of the measured noise multiplier %g: %w", recipe.NoiseMultiplier, err)
		}
		*of.epsilon = numbers.Finite(report.EpsilonProved)
	}
	return nil
}
