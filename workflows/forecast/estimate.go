// These files estimate the cost of a plan before it runs: arithmetic, bytes through the store, and time.

package forecast

import (
	"cmp"
	"math"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/audits/models/accuracyperuser"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// Fractions of a core's peak that arithmetic reaches: the matrix products of training and of scoring whole
// sentences, those of scoring images and trees of sequences, and the attacks of audits with their overhead.
// They were fitted to examples; "go run ./bench/cmd plan" compares the examples' times with the
// predictions, and bench/README.md has the table.
const (
	TrainingEfficiency = 0.6
	ScoringEfficiency  = 0.2
	AttackEfficiency   = 0.3
)

// Seconds that training and scoring take in addition to matrix products, on a core with AVX2 or AVX-512.
// They matter for small models.
const (
	// tokenSeconds is the time for each trained token and layer; clippedSeconds is added for each token of
	// a record whose own gradient is clipped.
	tokenSeconds, clippedSeconds = 0.3e-6, 1e-6
	// passSeconds is the time for each parameter in a pass over the model, noiseSeconds for each parameter
	// that gets noise.
	passSeconds, noiseSeconds = 1e-9, 3.5e-9
	// stateSeconds is the time for each scored state, symbolSeconds for the exponential of each token of
	// the vocabulary after it. A transformer's block adds blockSeconds, or branchSeconds in a tree of
	// sequences, of which few are scored at the same time.
	stateSeconds, symbolSeconds = 0.6e-6, 0.8e-9
	blockSeconds, branchSeconds = 3e-6, 14e-6
	// projectSeconds is the time for each value of an update that is projected to be recorded: two random numbers, and
	// four additions of random sign. Layers of 20,000 and 200,000 values take 24 to 27 ns a value.
	projectSeconds = 25e-9
	// clientPasses is the number of passes over the model that copy it to a client, subtract it from the
	// client's model, and add the difference.
	clientPasses = 3
)

// Cost is the cost of a plan's nodes that are not cached.
type Cost struct {
	// TrainingFLOP and MeasuringFLOP count floating-point operations.
	TrainingFLOP, MeasuringFLOP float64
	// Bytes is the number of bytes that trainings write to and read from the store.
	Bytes float64
	// Recorded is the number of bytes of recorded updates that stay in the store. Gathering is the number of further
	// bytes in the store while some updates are gathered: a second copy, and the models of their rounds.
	Recorded, Gathering float64
	// Programs reports whether external programs also train or score. Their operations are not counted.
	Programs bool
}

// CostOf estimates the cost of the nodes of a plan that run according to x. Trainings shared by cells count
// once. Audits estimate their own cost.
func CostOf(s *submission.Submission, p *plan.Plan, x *Explanation) Cost {
	var total Cost
	counted := map[storage.Key]bool{} // chains, tails and gathering nodes
	for i := range p.Cells {
		e := &s.Spec.Cells[i].Experiment
		model, err := networkOf(e)
		if err != nil {
			continue // compiling rejects it
		}
		c := newCosting(s, i, model)
		total.Programs = total.Programs || c.byProgram() && !x.Cells[i].Cached
		nodes, chains := below(p, p.Cells[i].Report, p.Cells[i].Model)
		of := c.trainings(p, nodes)
		for _, ch := range chains {
			if t := x.Chains[ch.Recipe]; t != nil && !counted[ch.Recipe] {
				counted[ch.Recipe] = true
				total.add(of(ch.Recipe).train(t.StepsToRun(), ch.StepRounds, ch.Width))
			}
		}
		for _, key := range tails(nodes) {
			if x.Nodes[key].Disposition == ToRun && !counted[key] {
				counted[key] = true
				total.add(of(key).train(1, tailSteps(p.Nodes[key]), 0))
			}
		}
		c.record(p, x, &p.Cells[i], counted)
		if !x.Cells[i].Cached {
			c.measure()
		}
		total.MeasuringFLOP += c.MeasuringFLOP
		total.Bytes += c.Bytes
		total.Recorded += c.Recorded
		total.Gathering = max(total.Gathering, c.Gathering)
	}
	return total
}

// add adds steps of a training.
func (c *Cost) add(operations, bytes float64) {
	c.TrainingFLOP += operations
	c.Bytes += bytes
}

// networkOf returns the network of an experiment. For an external program it returns one without
// arithmetic, which cannot be counted.
func networkOf(e *experiment.Experiment) (models.Network, error) {
	if e.Model.Kind == models.External {
		return foreign{}, nil
	}
	return checkpoints.NewNetwork(e.Model.Config(&e.Data))
}

type foreign struct{ models.Network }

func (foreign) Parameters() int        { return 0 }
func (foreign) Trained() int           { return 0 }
func (foreign) ScoringFLOPs() float64  { return 0 }
func (foreign) TrainingFLOPs() float64 { return 0 }

// costing adds up the cost of one cell.
type costing struct {
	Cost
	cell       *experiment.Cell
	experiment *experiment.Experiment
	model      models.Network
	// These count predicted tokens: tokens of an example and perUser of a training user, on average;
	// trainTokens of all training users, testTokens of the whole test part.
	tokens, perUser, trainTokens, testTokens float64
	// absent is the fraction of the training users without data; lost is the fraction of their tokens that
	// an audit's canaries replace.
	absent, lost float64
	read         map[submission.Reading]population.Counts
	speed        *Speed // of the program; nil without a program, or if unknown
}

func newCosting(s *submission.Submission, cell int, model models.Network) costing {
	e := &s.Spec.Cells[cell].Experiment
	c := costing{
		cell: &s.Spec.Cells[cell], experiment: e, model: model, tokens: e.Data.Predicted(s.TokensPerExample[cell]),
		perUser: e.Data.Predicted(s.TokensPerUser[cell]), trainTokens: e.Data.Predicted(s.TrainTokens[cell]),
		testTokens: e.Data.Predicted(s.TestTokens[cell]), read: s.Read,
	}
	c.plant()
	c.choose()
	return c
}

// choose sets perUser to the tokens of a participating user that data.select leaves, if it selects a known
// share of the examples.
func (c *costing) choose() {
	s := c.experiment.Data.Select
	if s == nil {
		return
	}
	left := c.perUser
	switch {
	case !s.Percentile.IsZero():
		left *= 1 - s.Percentile.Float64()
	case !s.Share.IsZero():
		left *= s.Share.Float64()
	case s.PerUser > 0:
		left = min(left, float64(s.PerUser)*c.tokens)
	}
	c.perUser = max(left, min(c.perUser, float64(s.AtLeast)*c.tokens))
}

// plant sets absent and lost from the users whose data the coins of a one-run audit replace or remove. A
// canary takes the place of each example of its user.
func (c *costing) plant() {
	setting := c.cell.Setting()
	f, asked := audits.FieldsOf[*onerun.Fields](setting)
	if !asked || c.trainTokens == 0 {
		return
	}
	replaced, removed := f.Carriers(setting)
	users := max(c.trainTokens/c.perUser, replaced+removed)
	c.absent = removed / users
	c.lost = c.absent
	if words := f.OneRun.Words; words > 0 { // a canary is not an image
		c.lost += replaced / users * (1 - c.experiment.Data.Predicted(float64(words+1))/c.tokens)
	}
}

// byProgram reports whether an external program trains and scores.
func (c *costing) byProgram() bool { return c.experiment.Model.Kind == models.External }

// trainedByProgram reports whether a program trains, including that of training.engine: pytorch.
func (c *costing) trainedByProgram() bool {
	return c.byProgram() || c.experiment.Training.Engine == experiment.PyTorchEngine
}

// network returns the network that a program describes, or nil if the program was not asked.
func (c *costing) network() models.Network {
	if c.speed == nil {
		return nil
	}
	return c.speed.Network
}

// programLoad returns the load of a program that trains on or scores the given number of tokens.
func (c *costing) programLoad(tokens float64, at func(*Speed) Pace) Load {
	if c.speed == nil {
		return Load{Unknown: true}
	}
	pace := at(c.speed)
	return Load{Program: pace.Start + tokens*pace.Token}
}

// perStep returns the number of tokens of one epoch of a step with the given rounds.
func (c *costing) perStep(rounds int) float64 {
	if t := &c.experiment.Training; !t.Central() {
		return float64(t.Cohort) * c.perUser * (1 - c.lost)
	}
	return float64(c.experiment.Training.Cohort) * float64(rounds) * c.tokens
}

// trainings returns the costing of each training below the nodes, by the recipe of a chain or the key of a
// tail. Trainings of the prepare block, and the readers of their models, have their own.
func (c *costing) trainings(p *plan.Plan, nodes map[string][]storage.Key) func(storage.Key) *costing {
	apart := map[storage.Key]*costing{}
	prepared := func(reader storage.Key, input string, e *experiment.Experiment) {
		model, err := networkOf(e)
		if err != nil {
			return // compiling rejects it
		}
		own := *c
		own.experiment, own.model, own.absent, own.lost, own.speed = e, model, 0, 0, nil
		apart[reader] = &own
		for i, in := range p.Nodes[reader].Inputs {
			if in.Name == input {
				trained, chains := below(p, p.Nodes[reader].Needs[i])
				for _, key := range tails(trained) {
					apart[key] = &own
				}
				for _, ch := range chains {
					apart[ch.Recipe] = &own
				}
			}
		}
	}
	if prepare := c.experiment.Prepare; prepare != nil {
		if classifier := prepare.Classifier; classifier != nil {
			for _, key := range nodes[selection.Predictions.Name] {
				prepared(key, selection.ModelInput, classifier.ExperimentFor(c.experiment))
			}
			for _, key := range nodes[generatedimages.Summary.Name] {
				prepared(key, generatedimages.ClassifierInput, classifier.ExperimentFor(c.experiment))
			}
		}
		for _, key := range nodes[selection.Unlikely.Name] {
			prepared(p.Nodes[key].Input(selection.LossesInput), training.ModelInput, prepare.LanguageModel.ExperimentFor(c.experiment))
			if second := prepare.SecondLanguageModel; second != nil {
				prepared(p.Nodes[key].Input(selection.SecondInput), training.ModelInput, second.ExperimentFor(c.experiment))
			}
		}
	}
	return func(key storage.Key) *costing { return cmp.Or(apart[key], c) }
}

// train returns the floating-point operations of a number of steps with the given rounds, and the bytes
// that they write to and read from the store. Each step has width parts before its join.
func (c *costing) train(number, rounds, width int) (operations, bytes float64) {
	training, steps := &c.experiment.Training, float64(number)
	perStep := c.perStep(rounds) * float64(max(1, training.Client.Epochs))
	products := 3.0
	if training.Central() && training.Privacy != nil {
		products++ // each record needs the gradients of weights once more
	}
	checkpoint, sum := c.sizes()
	return steps * (perStep*c.model.TrainingFLOPs()*products/3 + c.generator(rounds)), steps * (checkpoint*float64(2+width) + sum*float64(2*width))
}

// generator returns the floating-point operations of the server's training of a generator in some rounds.
func (c *costing) generator(rounds int) float64 {
	g, generates := c.model.(models.Generating)
	steps := c.experiment.Training.Generator
	if !generates || steps == nil {
		return 0
	}
	return float64(rounds*steps.Steps*steps.Batch) * g.GeneratorFLOPs()
}

// overhead returns the seconds of a step with the given rounds in addition to its matrix products.
func (c *costing) overhead(rounds int) float64 {
	training, parameters := &c.experiment.Training, float64(c.model.Trained())
	tokens := c.perStep(rounds) * float64(max(1, training.Client.Epochs))
	seconds := tokens * tokenSeconds * float64(max(1, c.model.Config().Layers))
	if !training.Central() {
		batches := float64(training.Client.Epochs) * math.Ceil(c.perUser/c.tokens/float64(training.Client.Batch))
		client := (1-c.absent)*(batches+clientPasses)*parameters*passSeconds + float64(c.projected()*projectSeconds)
		return seconds + float64(training.Cohort)*client
	}
	seconds += float64(rounds) * parameters * passSeconds
	if training.Privacy != nil {
		seconds += tokens*clippedSeconds + float64(rounds)*parameters*noiseSeconds
	}
	return seconds
}

// projected returns the mean number of values of a client's update that are projected in a round.
func (c *costing) projected() float64 {
	recording, layout, err := c.experiment.Recording()
	if err != nil || recording == nil || recording.Project == 0 || c.trainedByProgram() {
		return 0
	}
	whole := *recording
	whole.Project = 0
	values := 0
	sent, _ := whole.Layout(c.model) // has the layers of layout
	for i, layer := range sent.Layers {
		if layer.Values != layout.Layers[i].Values {
			values += layer.Values
		}
	}
	rounds := c.experiment.Training.Rounds
	return float64(values*len(recording.RoundsOf(rounds))) / float64(rounds)
}

// sizes returns the bytes of a checkpoint, and of a sum of updates.
func (c *costing) sizes() (checkpoint, sum float64) {
	sum = 4 * float64(c.model.Trained())
	if m := &c.experiment.Model; m.Adapters != nil && m.Pretrained != "" {
		return sum, sum // the frozen parameters stay in the imported model
	}
	return 4 * float64(c.model.Parameters()), sum
}

// timesMoved is the number of times that a recorded update is written or read until it is gathered: once by
// the client's task, and at most twice by the task that gathers it.
const timesMoved = 3

// record adds the gathered updates of a cell. Each node counts once.
func (c *costing) record(p *plan.Plan, x *Explanation, cell *plan.Cell, counted map[storage.Key]bool) {
	_, layout, err := c.experiment.Recording()
	if err != nil || layout.Values() == 0 {
		return // compiling rejects it, or the size is still unknown
	}
	round := float64(c.experiment.Training.Cohort) * float64(layout.UpdateBytes())
	checkpoint, _ := c.sizes()
	for _, need := range p.Nodes[cell.Report.Key].Needs {
		n := p.Nodes[need.Key]
		if n == nil || n.Kind != updates.Gather.Name || x.Nodes[need.Key].Disposition != ToRun || counted[need.Key] {
			continue
		}
		counted[need.Key] = true
		rounds := float64(len(n.Needs))
		c.Recorded += rounds * round
		c.Bytes += timesMoved * rounds * round
		c.Gathering = max(c.Gathering, rounds*(round+checkpoint))
	}
}

func (c *costing) measure() {
	for _, m := range c.experiment.Audit.Requested() {
		states, work := c.audit(m)
		c.MeasuringFLOP += states*c.model.ScoringFLOPs() + work
	}
}

// sentenceKinds are the kinds that score whole sentences. Other audits follow trees of sequences.
var sentenceKinds = lists.Set(utility.Part.Name, membership.Losses.Name, accuracyperuser.Kind.Name)

// scoring returns the load of native scoring of states, in whole sentences or in trees of sequences.
func (c *costing) scoring(states float64, sentences bool) Load {
	model, operations := c.model.Config(), states*c.model.ScoringFLOPs()
	if c.experiment.Data.Level.Scheme().Images {
		return Load{Scoring: operations}
	}
	seconds, block := stateSeconds+float64(symbolSeconds*float64(model.Vocabulary)), branchSeconds
	if sentences {
		block = blockSeconds
	}
	if model.Kind == models.Transformer {
		seconds += float64(block * float64(model.Layers))
	}
	load := Load{Overhead: states * seconds}
	if sentences {
		load.Sentences = operations
	} else {
		load.Scoring = operations
	}
	return load
}

// share returns the load of each of count tasks of an audit. kind is the kind of the first task.
func (c *costing) share(m experiment.Method, kind string, count int) Load {
	states, work := c.audit(m)
	var load Load
	if !c.byProgram() {
		load = c.scoring(states/float64(count), sentenceKinds[kind])
	}
	load.Attacks = work / float64(count)
	if _, attack := m.Fields.(audits.Worker); attack && c.byProgram() && c.experiment.Training.Record != nil && c.network() == nil {
		return Load{Unknown: true} // only the program knows the size of its updates
	}
	if c.byProgram() && states > 0 {
		load = c.programLoad(states/float64(count), scores)
		load.Attacks = work / float64(count)
	}
	return load
}

// audit returns the scored states and the floating-point operations of further work of all measurements of an audit.
func (c *costing) audit(m experiment.Method) (states, work float64) {
	setting := c.cell.Setting()
	setting.TestTokens = c.testTokens
	if n := c.network(); n != nil && setting.Recorded != nil {
		setting.Recorded.Layout, _ = setting.Recorded.Recording.Layout(n) // a training rejects layers that the network lacks
	}
	times := 1.0
	if !m.AtEnd {
		times = float64(len(c.experiment.Measured()))
	}
	if w, ok := m.Fields.(audits.Worker); ok {
		work = times * w.Work(setting)
	}
	if s, ok := m.Fields.(audits.Scorer); ok {
		states = times * s.States(setting)
	}
	return states, work
}
