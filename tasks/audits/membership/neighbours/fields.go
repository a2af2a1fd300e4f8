package neighbours

import (
	"coalmine/internal/numbers"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/training"
)

// Fields of the audit block.
type Fields struct {
	// Neighbours replays rounds (sgd: steps) of a private training by its own code, from the initial and
	// from the last model, on data that differ in one user (record), with noise and without. It tests
	// whether the clipped sum moves by more than is claimed, and whether noise and cohorts are those that
	// epsilon is computed for. It can show that a training is not as private as claimed, never that it is.
	// A training.command states its claim and runs single steps, or replays them itself: the contract train.
	Neighbours *Block `json:"neighbours,omitempty"`
}

type Block struct {
	// Repeats is the number of replayed rounds, from the first on, with the training's own seeds.
	Repeats int `json:"repeats" default:"200" range:"[20,2000]" unit:"rounds (sgd: steps)"`
	// Members of each replayed cohort have their data, and the data sets differ in one of them; all
	// other users have none. In a step of sgd all records have theirs.
	Members int `json:"members" default:"4" range:"[1,1000]" unit:"users"`
	// FalseAlarm is the probability that a right training is refuted, over all tests together.
	FalseAlarm numbers.Probability `json:"false_alarm" default:"0.01%" range:"(0,1)"`
}

const path = "audit.neighbours"

// Check accepts any external training, whose command states its claim.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(s.External == nil && s.Training.NoiseMultiplier == 0, []string{path, "training.privacy.noise_multiplier"}, "tests the noise that is claimed, and there is none; set training.privacy.clip and training.privacy.noise_multiplier")
}

// States implements audits.Scorer: a replayed member costs about as much as its text three times.
func (f *Fields) States(s *audits.Setting) float64 {
	if s.Data == nil || s.Data.Users == 0 {
		return 0
	}
	perUser, members := s.TrainTokens()/float64(s.Data.Users), float64(f.Neighbours.Members)
	if s.Training.Central && s.Data.Examples > 0 {
		perUser, members = s.TrainTokens()/float64(s.Data.Examples), float64(s.Training.Cohort)
	}
	return replays * trainingCost * float64(f.Neighbours.Repeats) * members * perUser
}

// Per round: without noise on two or three data sets, and with noise. A gradient costs as much as three
// scorings.
const replays, trainingCost = 4, 3

func (f *Fields) replay() *external.Replay { return &external.Replay{Repeats: f.Neighbours.Repeats} }

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	n, s := f.Neighbours, b.Setting()
	if s.External != nil {
		params := ReportParams{Replay: *f.replay(), FalseAlarm: n.FalseAlarm.Float64(), Train: *b.Step().External}
		return b.Node(ReportAuditor, "replay of neighbours", params, tasks.Input{Name: audits.ModelInput, Key: b.Model(round)},
			tasks.Input{Name: population.Input, Key: b.Population()}, tasks.Input{Name: population.ShardsInput, Key: b.Shards()}, tasks.Input{Name: population.PartsInput, Key: b.Parts()})
	}
	params := Params{Repeats: n.Repeats, Members: n.Members, FalseAlarm: n.FalseAlarm.Float64(), Step: b.Step(), Recipe: s.Training.Recipe}
	inputs := []tasks.Input{{Name: InitialInput, Key: b.Initial()}, {Name: audits.ModelInput, Key: b.Model(round)},
		{Name: training.PopulationInput, Key: b.Population()}, {Name: training.ShardsInput, Key: b.Shards()}}
	if params.UsesProgram() != nil {
		inputs = append(inputs, tasks.Input{Name: external.VocabularyInput, Key: b.Parts()})
	}
	return b.Node(Auditor, "replay of neighbours", params, inputs...)
}
