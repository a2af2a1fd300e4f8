package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// training compiles the chain of a cell, and the tail after it if the SGD steps are not a whole number of tasks.
func (c *cell) training() {
	e := c.experiment
	if e.Training.Algorithm == experiment.External {
		c.external()
		return
	}
	c.origin = c.initial()
	chain := &plan.Chain{Origin: c.origin, StepRounds: 1}
	switch e.Training.Algorithm {
	case experiment.SGD:
		chain.StepRounds = max(1, e.Training.StepsPerTask)
		c.central(chain, nil)
		if p := e.Training.Privacy; p.Secret() {
			c.central(chain, &tasks.Secret{Key: p.Key, Training: chain.Recipe.String()})
		}
	case experiment.FedAvg:
		chain.Width = e.Training.Chunks
		c.federated(chain, nil)
		if p := e.Training.Privacy; p.Secret() {
			c.federated(chain, &tasks.Secret{Key: p.Key, Training: chain.Recipe.String()})
		}
	case experiment.External: // above
	default:
		c.err = fmt.Errorf("algorithm %q: expected one of %s", e.Training.Algorithm, strings.Join(e.Training.Algorithm.Choices(), ", "))
		return
	}
	c.length(chain)
	c.gather()
}

// initialParams returns the seed of an initial model, or the checkpoint that contains it.
func initialParams(e *experiment.Experiment) training.InitialParams {
	p := training.InitialParams{Seed: e.Seed, Model: e.Model.Config(&e.Data), Checkpoint: e.Model.Initial()}
	if p.Checkpoint != (storage.Digest{}) {
		p.FrozenApart = e.Model.Adapters != nil
		if !p.FrozenApart {
			p.Seed = 0 // nothing is drawn
		}
	}
	return p
}

func (c *cell) initial() plan.Ref {
	e := c.experiment
	if p := e.ClientProgram(); p != nil {
		return c.node(training.ClientInitial, "initial model", training.ClientInitialParams{Seed: e.Seed, Program: *p}, c.vocabularyEdge())
	}
	return c.node(training.Initial, "initial model", initialParams(e))
}

// gather compiles the nodes that gather the recorded updates. All but the last cover equally many recorded
// rounds, so that a longer training reuses the earlier nodes.
func (c *cell) gather() {
	recording, layout, err := c.experiment.Recording()
	if err != nil {
		c.err = err
	}
	if recording == nil {
		return
	}
	t := &c.experiment.Training
	for rounds := range slices.Chunk(recording.RoundsOf(t.Rounds), roundsGathered(t, &layout)) {
		var edges []edge
		for _, round := range rounds {
			edges = append(edges, edge{updates.RoundInput(round), c.chain.At(round)})
		}
		label := fmt.Sprintf("recorded updates of rounds %d to %d", rounds[0], rounds[len(rounds)-1])
		c.recorded = append(c.recorded, c.node(updates.Gather, label, updates.GatherParams{Chunks: t.Chunks}, edges...))
	}
}

// unknownUpdate is the assumed size in bytes of an update of an external program.
const unknownUpdate = 8 << 20

// roundsGathered returns the number of recorded rounds per gathering node: a hundred, or fewer to limit the
// node's size.
func roundsGathered(t *experiment.Training, layout *updates.Layout) int {
	update := layout.UpdateBytes()
	if layout.Values() == 0 {
		update = unknownUpdate
	}
	round := t.Cohort * update
	return max(1, min(tasks.SegmentSteps, updates.NodeBytes/round))
}

// trainApart compiles a training of some steps on another population, without measurements, and returns its
// last model.
func (c *cell) trainApart(population plan.Ref, steps int) plan.Ref {
	apart, e := *c, *c.experiment
	e.Audit = e.Audit.WithoutAudits()
	e.Training.Rounds, e.Training.EarlyStopping, e.Training.StopAt, e.Training.Record = steps, nil, nil, nil
	apart.experiment, apart.population, apart.shards = &e, population, population
	apart.training()
	c.err = apart.err
	return apart.model
}

// federated sets the tasks of a round. The secret is named by the recipe that the chain has without it, so
// that two trainings under one key never share their noise.
func (c *cell) federated(chain *plan.Chain, secret *tasks.Secret) {
	clients, server := clientsParams(c.experiment), serverParams(c.experiment)
	recording, _, err := c.experiment.Recording()
	if err == nil {
		clients.Program, err = Trainer(c.experiment)
	}
	if err != nil {
		c.err = err
		return
	}
	clients.Record, server.Record = recording, recording
	clients.Secret, server.Secret = secret, secret
	if s := c.experiment.Sender(); s != nil {
		clients.Canaries, server.Watch = s.Clients(c.setting), s.Watch(c.setting)
	}
	chain.Part = c.template(training.Clients, clients, c.trainingEdges()...)
	chain.Join = c.template(aggregation.Server, server, c.serverEdges()...)
	if secret != nil {
		chain.Part.SecretKey, chain.Join.SecretKey = secret.Key, secret.Key
	}
	chain.Recipe = plan.Recipe(chain.Origin.Key, chain.Width, 1, chain.Part, chain.Join)
}

// central sets the task of a number of steps. It names the secret as federated does.
func (c *cell) central(chain *plan.Chain, secret *tasks.Secret) {
	c.secret = secret
	kind, params := c.stretch(c.sgdParams())
	chain.Join = c.template(kind, params, c.centralEdges()...)
	if secret != nil {
		chain.Join.SecretKey = secret.Key
	}
	chain.Recipe = plan.Recipe(chain.Origin.Key, 0, chain.StepRounds, chain.Join)
}

// stretch returns the task of some steps, private or not.
func (c *cell) stretch(p training.SGDParams) (kind tasks.Kind, params any) {
	t := &c.experiment.Training
	if t.Privacy == nil {
		return training.SGD, p
	}
	p.Order = "" // the sampling determines the data of a step
	private := training.DPSGDParams{
		SGDParams: p, Sampling: t.Sampling, Clip: t.Privacy.Clip, NoiseMultiplier: t.Privacy.NoiseMultiplier,
		Secret: c.secret, Guarantee: guarantee(t),
	}
	if s := c.experiment.Sender(); s != nil {
		private.Canaries, private.Watch = s.Clients(c.setting), s.Watch(c.setting)
	}
	return training.DPSGD, private
}

// trainingEdges returns the data, and the vocabulary if a program trains.
func (c *cell) trainingEdges() []edge {
	if c.experiment.ClientProgram() == nil && c.experiment.Training.Engine != experiment.PyTorchEngine {
		return c.populationEdges()
	}
	return append(c.populationEdges(), c.vocabularyEdge())
}

func (c *cell) vocabularyEdge() edge { return edge{external.VocabularyInput, c.parts} }

// centralEdges returns the data, and the validation part if it decides when the training ends.
func (c *cell) centralEdges() []edge { return append(c.trainingEdges(), c.validationEdges()...) }

// validationEdges returns the validation part, if the training uses it.
func (c *cell) validationEdges() []edge {
	if t := &c.experiment.Training; t.EarlyStopping == nil && t.StopAt == nil {
		return nil
	}
	return []edge{{training.ValidationInput, c.parts}}
}

// serverEdges returns the population for the server's privacy account, and the validation part.
func (c *cell) serverEdges() []edge {
	if guarantee(&c.experiment.Training) == nil {
		return c.validationEdges()
	}
	return append([]edge{{aggregation.PopulationInput, c.population}}, c.validationEdges()...)
}

// length sets the length of the chain and its kept checkpoints, and compiles the tail.
func (c *cell) length(chain *plan.Chain) {
	t := &c.experiment.Training
	chain.Steps = t.Rounds / chain.StepRounds
	chain.Every = max(1, t.Checkpoints.Every.Of(t.Rounds)/chain.StepRounds)
	chain.KeepLast = t.Checkpoints.Keep
	for _, round := range c.experiment.Measured() {
		if round%chain.StepRounds == 0 {
			chain.Keep = append(chain.Keep, round/chain.StepRounds)
		}
	}
	c.model = chain.Origin
	if chain.Steps > 0 {
		if n := len(chain.Keep); n == 0 || chain.Keep[n-1] != chain.Steps {
			chain.Keep = append(chain.Keep, chain.Steps)
		}
		c.chain = c.share(chain)
		c.model = c.chain.At(chain.Steps)
	}
	if done := chain.Steps * chain.StepRounds; done < t.Rounds {
		c.tail(done, t.Rounds-done)
	}
	if t.EarlyStopping != nil {
		c.rest.After = chain.Steps
		c.model = c.node(training.Best, "model of the lowest validation loss", struct{}{}, edge{tasks.PreviousInput, c.model})
		c.best = c.model
	}
}

// share adds the chain to the plan, or extends another cell's chain of the same recipe.
func (c *cell) share(chain *plan.Chain) *plan.Chain {
	other, there := c.plan.Chains[chain.Recipe]
	if !there {
		c.plan.Chains[chain.Recipe] = chain
		return chain
	}
	other.Extend(chain)
	return other
}

// tail compiles the SGD steps after the last whole task.
func (c *cell) tail(first, steps int) {
	c.rest = plan.Tail{After: c.model.Step, Rounds: steps}
	params := c.sgdParams()
	params.First, params.Steps = first, steps
	kind, tail := c.stretch(params)
	edges := append([]edge{{tasks.PreviousInput, c.model}}, c.centralEdges()...)
	c.model = c.node(kind, "last SGD steps", tail, edges...)
	c.rest.Node = c.model
	if c.secret != nil {
		c.plan.Nodes[c.model.Key].Spec.SecretKey = c.secret.Key
	}
}

// Unit returns the unit of a training's length.
func Unit(t *experiment.Training) plan.Unit {
	if t.Central() {
		return plan.Step
	}
	return plan.Round
}

// after returns the model that is measured after a round.
func (c *cell) after(round int) plan.Ref {
	trained := c.model
	if round != c.experiment.Training.Rounds {
		trained = c.chain.At(round / c.chain.StepRounds)
	}
	bits := c.experiment.Training.QuantizeBits
	if bits == nil {
		return trained
	}
	label := fmt.Sprintf("model after %s %d in %d bits", Unit(&c.experiment.Training), round, *bits)
	return c.node(training.Quantize, label, training.QuantizeParams{Bits: *bits}, edge{training.ModelInput, trained})
}

func (c *cell) sgdParams() training.SGDParams {
	e := c.experiment
	p := training.SGDParams{
		Seed: e.Seed, Local: local(e, e.Training.Cohort), Order: order(e.Data.Partition), StepsPerTask: e.Training.StepsPerTask,
	}
	if s := e.Training.EarlyStopping; s != nil {
		p.EarlyStopping = &training.EarlyStopping{Every: s.Every, Patience: s.Patience}
	}
	p.StopAt = target(&e.Training)
	if trainer, err := Trainer(e); err == nil {
		p.Program = trainer
	} else {
		c.err = err
	}
	return p
}

// target returns the utility at which a training ends, or nil if it runs all rounds.
func target(t *experiment.Training) *training.Target {
	if t.StopAt == nil {
		return nil
	}
	return &training.Target{RecallAt1: t.StopAt.RecallAt1.Float64(), Perplexity: t.StopAt.Perplexity, Every: t.StopAt.Every}
}

// order returns the order in which central training processes a population. It is empty for an unknown
// partition, for which arrange reports the error.
func order(p population.Partitioning) training.Order {
	scheme, err := population.FindPartition(p)
	switch {
	case err != nil:
		return ""
	case scheme.UserOrder:
		return training.ByUser
	}
	return training.ByRecord
}

func clientsParams(e *experiment.Experiment) training.ClientsParams {
	t := &e.Training
	return training.ClientsParams{
		Seed: e.Seed, Cohort: t.Cohort, Chunks: t.Chunks, Sampling: t.Sampling, Separation: t.Separation, Participations: t.Participations,
		Local: local(e, t.Client.Batch), Epochs: t.Client.Epochs, Clip: clip(t),
		AdaptiveClip: t.Privacy != nil && t.Privacy.Adaptive != nil, Steps: t.Client.Steps,
		Noise: t.Client.Noise, NoiseMultiplier: t.Privacy.Shared(), Compress: t.Client.Compress.Config(), StopAt: target(t), Control: ofClients(e.Audit.Controlled()), Program: e.ClientProgram(),
	}
}

// Trainer returns the program that trains the clients of an experiment or computes the gradients of its
// central training, or nil for the native engine.
func Trainer(e *experiment.Experiment) (*clientprograms.Program, error) {
	return e.Trainer(func() (json.RawMessage, error) {
		p := clientsParams(e)
		if t := &e.Training; t.Central() {
			p.Local, p.Epochs, p.Steps = training.GradientsOf(local(e, t.Cohort), t.Privacy != nil), 1, 0
		}
		return json.Marshal(struct {
			Model  models.Config  `json:"model"`
			Local  training.Local `json:"local"`
			Epochs int            `json:"epochs"`
			Steps  int            `json:"steps,omitempty"`
			Users  int            `json:"users"`
		}{e.Model.Config(&e.Data), p.Local, p.Epochs, p.Steps, e.Training.PyTorch.Users})
	})
}

// ofClients returns the control if it is a fault of clients or of their selection, else "". ofServer
// returns it if it is a fault of the server's sum.
func ofClients(c privacy.Control) privacy.Control {
	if c == privacy.NoNoise {
		return ""
	}
	return c
}

func ofServer(c privacy.Control) privacy.Control {
	if c == privacy.NoNoise {
		return c
	}
	return ""
}

func serverParams(e *experiment.Experiment) aggregation.ServerParams {
	t := &e.Training
	p := aggregation.ServerParams{
		Seed: e.Seed, Chunks: t.Chunks, Cohort: t.Cohort, Clip: clip(t),
		Optimizer: t.Server.Optimizer.Config(), LearningRate: t.Server.LearningRate,
		Schedule: t.Server.Schedule.Config(t.Rounds), StopAt: target(t),
	}
	if t.Privacy != nil {
		p.NoiseMultiplier, p.Adaptive = t.Privacy.NoiseMultiplier, t.Privacy.ClipQuantile()
		p.Mechanism = t.Privacy.Mechanism.Config()
		if t.Privacy.Shared() > 0 {
			p.NoiseBy = privacy.ByDevices
		}
	}
	if g := t.Generator; g != nil {
		p.Generator = &aggregation.Generator{Steps: g.Steps, Batch: g.Batch, LearningRate: g.LearningRate}
	}
	p.Guarantee, p.Control = guarantee(t), ofServer(e.Audit.Controlled())
	return p
}

// guarantee returns the guarantee of the noise, or nil without noise.
func guarantee(t *experiment.Training) *training.Guarantee {
	if t.Privacy == nil || t.Privacy.NoiseMultiplier == 0 {
		return nil
	}
	g := &training.Guarantee{
		Sampling: t.Sampling, Delta: t.Privacy.Delta, Conversion: t.Privacy.Accounting(), Budget: budget(t.Privacy),
		Separation: t.Separation, Participations: t.Participations,
	}
	if p := t.Privacy.Prover(); g.Budget != nil && p != privacy.RDP {
		g.Accountant = p
	}
	return g
}

func budget(p *experiment.Privacy) *privacy.Budget {
	if p.Budget == nil {
		return nil
	}
	return &privacy.Budget{Epsilon: p.Budget.Epsilon, Delta: p.Budget.Delta}
}

func local(e *experiment.Experiment, batch int) training.Local {
	if e.ClientProgram() != nil {
		return training.Local{Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 1, Batch: 1} // not used
	}
	client := &e.Training.Client
	l := training.Local{
		Optimizer: client.Optimizer.Config(), LearningRate: client.LearningRate,
		Schedule: client.Schedule.Config(e.Training.Rounds), Batch: batch,
		Dropout: client.Dropout, WeightDecay: client.WeightDecay, Proximal: client.Proximal,
	}
	if client.GradientClip != nil {
		l.GradientClip = *client.GradientClip
	}
	return l
}

func clip(t *experiment.Training) float64 {
	if t.Privacy == nil {
		return 0
	}
	return t.Privacy.Clip
}

// LearningRates returns the learning rates of a round (sgd: step), counted from 1: that of the optimizer on
// the data, and the server's. A rate is 0 if there is no such optimizer or an external program has it.
func LearningRates(e *experiment.Experiment) func(round int) (client, server float64) {
	t := &e.Training
	ours := t.Algorithm != experiment.External && e.ClientProgram() == nil
	trained, served := local(e, t.Cohort), aggregation.ServerParams{}
	if t.Server != nil {
		served = serverParams(e)
	}
	return func(round int) (client, server float64) {
		if ours {
			client = trained.Rate(round - 1)
		}
		return client, served.Rate(round)
	}
}

// reference compiles the cell's training on half of all users, including held-out users, without canaries
// and with a separate seed, and returns its last model. Cells that are otherwise equal share it.
func (c *cell) reference(number int) plan.Ref {
	apart, e := *c, *c.experiment
	users := c.node(population.ReferenceUsers, fmt.Sprintf("users of reference model %d", number+1),
		population.ReferenceParams{Seed: e.Seed, Model: number}, edge{population.BalancedInput, c.balanced})
	e.Seed = seeds.Stream(e.Seed, seeds.ReferenceModel, uint64(number)).Uint64()
	if e.Training.Algorithm == experiment.External {
		e.Seed >>= 11 // every language's JSON keeps numbers below 2^53
	}
	e.Canaries, e.Training.Record, e.Audit = nil, nil, e.Audit.WithoutAudits()
	apart.experiment = &e
	apart.population, apart.shards = apart.arrange(users, plan.Ref{})
	if apart.err == nil {
		apart.training()
	}
	c.err = apart.err
	if apart.err != nil {
		return plan.Ref{}
	}
	return apart.after(e.Training.Rounds)
}

// repeated compiles the cell's training with a separate seed and a single audit, on the data of the cell,
// and returns the audit's node.
func (c *cell) repeated(number int, fields audits.Fields) plan.Ref {
	apart, e := *c, *c.experiment
	e.Seed = seeds.Stream(e.Seed, seeds.RepeatedTraining, uint64(number)).Uint64()
	e.Training.Record, e.Audit = nil, e.Audit.WithOnly(fields)
	apart.experiment, apart.setting, apart.recorded, apart.origin = &e, e.Setting(), nil, plan.Ref{}
	apart.refs, apart.planted = map[storage.Key]plan.Ref{}, map[audits.Planter]storage.Key{}
	apart.population = apart.undivided
	if p, ok := fields.(audits.Planter); ok {
		apart.population = apart.plant(p)
	}
	if apart.err == nil {
		apart.training()
	}
	if c.err = apart.err; c.err != nil {
		return plan.Ref{}
	}
	return apart.refs[fields.Compile(builder{&apart}, e.Training.Rounds)]
}
