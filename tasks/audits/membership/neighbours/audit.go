package neighbours

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/training"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "neighbours",
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Auditor, ReportAuditor},
	Limits:      limits,
	Models:      audits.Anything,
	Pairs:       audits.EverySecret,
	OfPrivacy:   true,
	ByTrainer:   true,
	ByProgram:   true,
	AtEnd:       true,
	OutcomeBlob: OutcomeBlob,
	Replay:      func(f audits.Fields) *external.Replay { return f.(*Fields).replay() },
	Measures: []audits.Measure{
		{Name: "neighbours_noise_multiplier", Of: audits.Of(func(v *Outcome) float64 { return v.Noise.Measured }), Header: "replayed noise multiplier", Text: audits.Of((*Outcome).noise), Doc: "noise multiplier of replayed rounds, with its 95% interval"},
		{Name: "neighbours_noise_multiplier_low", Of: audits.Of(func(v *Outcome) float64 { return v.Noise.Low }), Doc: "lower end of the interval of neighbours_noise_multiplier"},
		{Name: "neighbours_noise_multiplier_high", Of: audits.Of(func(v *Outcome) float64 { return v.Noise.High }), Doc: "upper end of the interval of neighbours_noise_multiplier"},
		{Name: "neighbours_sensitivity", Of: audits.Of(func(v *Outcome) float64 { return v.Sensitivity }), Header: "replayed sensitivity", Scale: audits.Plain, Digits: 3, Doc: "largest distance by which a member of the cohort moves the clipped sum, in clip norms"},
		{Name: "neighbours_outside", Of: audits.Of(func(v *Outcome) float64 { return v.Outside }), Doc: "largest distance by which a member outside the cohort moves the sum, in clip norms"},
		{Name: "neighbours_p_value", Of: audits.Of(func(v *Outcome) float64 { return v.P }), Doc: "least p-value of the tests of noise, members and cohorts, times their number"},
		{Name: "neighbours_refuted", Of: audits.Of(func(v *Outcome) bool { return v.Refuted }), Header: "replay refutes", Text: audits.Of((*Outcome).verdict), Scale: audits.Percent, Doc: "whether the tests of replayed rounds refute the claim, with the p-value over all tests"},
		{Name: "neighbours_refuted_by", Of: audits.Of(func(v *Outcome) string { return v.By }), Doc: "test with the least p-value"},
		{Name: "neighbours_false_alarm", Of: audits.Of(func(v *Outcome) float64 { return v.FalseAlarm }), Doc: "probability with which the tests refute a right claim"},
		{Name: "neighbours_epsilon", Of: audits.Of(func(v *Outcome) *float64 { return v.Epsilon }), Doc: "epsilon proved of the noise multiplier of the replay, with cohorts as claimed; empty if infinite"},
		{Name: "neighbours_epsilon_low", Of: audits.Of(func(v *Outcome) *float64 { return v.EpsilonLow }), Doc: "epsilon proved of the upper end of the replayed noise multiplier's interval"},
		{Name: "neighbours_repeats", Of: audits.Of(func(v *Outcome) int { return v.Repeats }), Doc: "replayed rounds"},
	},
})

// limits has a limit on epsilon. A refuted training breaks it at any value.
var limits = []audits.Limit{audits.LimitOf[float64]{
	Name: "neighbours_epsilon", Range: "[0,1e9]",
	Doc: "neighbours_epsilon limits the epsilon proved of the largest noise that the replay does not exclude; a refuted training fails at any limit.",
	Breaches: audits.Judged("neighbours_epsilon", func(v *Outcome, limit float64) []string {
		switch {
		case v.Repeats == 0:
			return audits.NoValue("neighbours_epsilon", "the audit has replayed nothing")
		case v.Refuted:
			return []string{fmt.Sprintf("neighbours_epsilon: the replay of neighbours refutes the claim (%s, %s)", v.By, audits.PText(v.P))}
		case v.EpsilonLow == nil:
			return []string{"neighbours_epsilon is infinite"}
		}
		return audits.AboveLimit("neighbours_epsilon", *v.EpsilonLow, limit)
	}),
	FalseAlarms: audits.Alarms(func(f *Fields, _ *audits.Setting, limit float64) []audits.FalseAlarm {
		// The upper ends of all intervals hold together with probability (1 + audits.Confidence) / 2.
		return []audits.FalseAlarm{{
			Limit: "neighbours_epsilon", Allowed: limit, Trials: f.Neighbours.Repeats, Unit: "rounds", Where: "a training that is right, with its epsilon at the limit",
			Probability: min(1, f.Neighbours.FalseAlarm.Float64()+(1-audits.Confidence)/2),
		}}
	}),
}.Limit()}

// Fields of the audit block.
type Fields struct {
	// Replays rounds (sgd: steps) of a private training by the training's code, from the initial and from the
	// last model, on data that differ in one user (record), with noise and without. Tests whether the clipped
	// sum moves by more than claimed, and whether noise and cohorts are as accounted for. It can show that a
	// training is not as private as claimed, never that it is. A training.command states its claim and runs
	// single steps, or replays them itself: the contract train.
	Neighbours *Block `json:"neighbours,omitempty"`
}

type Block struct {
	// Replayed rounds, from the first on, with the training's own seeds.
	Repeats int `json:"repeats" default:"200" range:"[20,2000]" unit:"rounds (sgd: steps)"`
	// Members of each replayed cohort with data; the data sets differ in one of them, and all other users have
	// no data. In a step of sgd all records are present.
	Members int `json:"members" default:"4" range:"[1,1000]" unit:"users"`
	// Probability that a correct training is refuted, over all tests together.
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
	perUser, members := s.TrainTokens()/float64(s.Data.Users), float64(min(f.Neighbours.Members, s.Training.Cohort))
	if s.Training.Central && s.Data.Examples > 0 {
		perUser, members = s.TrainTokens()/float64(s.Data.Examples), float64(s.Training.Cohort)
	}
	return replays * trainingCost * float64(f.Neighbours.Repeats) * members * perUser
}

// replays is the number of replays in a round: without noise on two or three data sets, and with noise.
// trainingCost is the cost of a gradient in scorings.
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

// Outcome is the result of replays of a training.
type Outcome struct {
	replay.Finding
	Repeats int `json:"repeats" doc:"number of replays of each step"`
	// Claimed is the claimed noise multiplier of the updates, ClaimedSensitivity the claimed sensitivity to
	// leaving one member out: replay.Sensitivity.
	Claimed            float64 `json:"claimed_noise_multiplier" doc:"claimed noise multiplier of the updates"`
	ClaimedSensitivity float64 `json:"claimed_sensitivity" doc:"claimed sensitivity to leaving one member out"`
	// Epsilon is proved from the measured noise multiplier, EpsilonLow from the upper end of its interval,
	// EpsilonHigh from the lower; nil is infinite.
	Epsilon      *float64             `json:"epsilon" doc:"epsilon proved from the measured noise multiplier"`
	EpsilonLow   *float64             `json:"epsilon_low" doc:"lower end of the interval of the estimated epsilon"`
	EpsilonHigh  *float64             `json:"epsilon_high" doc:"upper end of the interval of the estimated epsilon"`
	Delta        float64              `json:"delta" doc:"delta of the estimated epsilon"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	// Reported reports whether an external training has replayed its steps and stated its claim.
	Reported bool `json:"told,omitempty"`
	// Population is the population that cohorts are drawn from.
	Population int `json:"population" doc:"number of members that cohorts are drawn from"`
}

func (v *Outcome) noise() string {
	return fmt.Sprintf("%.4g (%.4g to %.4g)", v.Noise.Measured, v.Noise.Low, v.Noise.High)
}

func (v *Outcome) verdict() string {
	return fmt.Sprintf("%s (%s)", map[bool]string{true: "YES", false: "no"}[v.Refuted], audits.PText(v.P))
}

func printed(epsilon *float64) string {
	if epsilon == nil {
		return "infinite"
	}
	return privacy.Epsilon(*epsilon).String()
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(*audits.Cell) string {
	text := fmt.Sprintf("replay of neighbours: %s with the noise multiplier %s (of %s; claimed %.3g), by which, with cohorts as claimed, epsilon %s (%s to %s) is proved at delta %g (%s, unit %s); "+
		"one member moves the sum by up to %.3g clip norms (claimed %g)",
		readable.Count(v.Repeats, "round"), v.noise(), v.Noise.Part, v.Claimed, printed(v.Epsilon), printed(v.EpsilonLow), printed(v.EpsilonHigh), v.Delta, v.Neighbouring, v.Unit,
		v.Sensitivity, v.ClaimedSensitivity)
	if !v.Refuted {
		return text + fmt.Sprintf("; %d tests do not refute the claim (%s over all), which does not show that it holds", len(v.Tests), audits.PText(v.P))
	}
	return text + fmt.Sprintf("; the training CANNOT BE AS PRIVATE AS CLAIMED: refuted by the test %q (%s over all %d, false alarms %g)%s", v.By, audits.PText(v.P), len(v.Tests), v.FalseAlarm, v.scaled())
}

// scaled returns a hint at a claim with a wrong divisor or clip norm, which scales the noise and the move
// alike. v.Noise is already divided by a move of more than the claimed one.
func (v *Outcome) scaled() string {
	if !(v.ClaimedSensitivity > 0) { // only in a damaged outcome
		return ""
	}
	scale := v.Sensitivity / v.ClaimedSensitivity
	expected := v.Claimed * min(1, scale)
	if math.Abs(scale-1) < scaleTolerance || expected < v.Noise.Low || expected > v.Noise.High {
		return ""
	}
	return fmt.Sprintf("; noise and move are both %.3g times the claimed, as if the divisor or the clip norm of the claim were wrong: check them first", scale)
}

// scaleTolerance is the relative difference of a move from the claimed one by which a divisor or a clip norm is
// taken for wrong.
const scaleTolerance = 0.01

// power returns the power of the replay if the noise of a step is a share of the claimed noise, by the test
// of all noise together, and for a limit also by the interval of all noise.
func power(f *Fields, s *audits.Setting, v *Outcome) []audits.Statement {
	parameters := s.Trained
	if s.External != nil {
		parameters = v.elements()
	}
	if parameters == 0 {
		return nil
	}
	repeats, partOf := f.Neighbours.Repeats, partOf(s)
	found := audits.Statement{
		Finds:   "the claim is refuted by the noise",
		Limit:   "neighbours_epsilon",
		Chance:  f.Neighbours.FalseAlarm.Float64(),
		Leak:    audits.Leak{Name: "f", Means: "the noise is the claimed noise times", Default: 0.99, Min: 1e-3, Max: 1},
		Sizes:   []audits.Size{audits.FieldSize(path+".repeats", "round", repeats)},
		Nothing: audits.From(func(v *Outcome) bool { return !v.Refuted }),
		Power: func(q audits.Question) float64 {
			columns, part := min(parameters, max(1, maxValues/q.Sizes[0])), 0.0
			if q.Limit != nil {
				part = partOf(*q.Limit)
			}
			return replay.Power(columns*q.Sizes[0], q.Leak, f.Neighbours.FalseAlarm.Float64(), replay.MaxTests, intervals(s), part)
		},
	}
	if s.External != nil {
		found.Of = []any{f, parameters}
	}
	return []audits.Statement{found}
}

// elements returns the number of elements of noise in a round of an external training, which only its replay
// tells; 0 before.
func (v *Outcome) elements() int {
	if v == nil || v.Repeats < 1 {
		return 0
	}
	i := slices.IndexFunc(v.Tests, func(t replay.Test) bool { return t.Name == replay.NoiseTest })
	if i < 0 {
		return 0
	}
	return v.Tests[i].Freedom / v.Repeats
}

// intervals returns the number of intervals of a replay: of all noise, of each tensor and of the count of an
// adaptive clip norm, and, if the noise of rounds is independent, along the moves. A replay without moves that
// it compares has one interval less.
func intervals(s *audits.Setting) int {
	n := 1 + s.TrainedTensors
	if s.Training.Recipe.ClipQuantile != nil {
		n++
	}
	if s.Training.Recipe.Mechanism == nil {
		n++
	}
	return n
}

// partOf returns a function from a limit of epsilon to the noise multiplier that has this epsilon, as a multiple of the
// claimed one. The function returns 1e6 if no noise has it. Without a known claim it returns 1e6 for the limit 0, and 0
// for any other.
func partOf(s *audits.Setting) func(epsilon float64) float64 {
	const none = 1e6
	if s.Data == nil || s.External != nil {
		return func(epsilon float64) float64 {
			if epsilon == 0 {
				return none
			}
			return 0
		}
	}
	recipe := s.Claim(s.Data)
	calibration := privacy.NewCalibration(recipe, recipe.Delta)
	return func(epsilon float64) float64 {
		noise, err := calibration.Noise(max(epsilon, leastEpsilon))
		if err != nil {
			return none
		}
		return noise / recipe.NoiseMultiplier
	}
}

// leastEpsilon replaces a limit of 0: at a small delta no noise has the epsilon 0.
const leastEpsilon = 1e-12
