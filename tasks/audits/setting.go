package audits

import (
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/external"
	"coalmine/tasks/updates"
)

// Setting is the experiment around an audit.
type Setting struct {
	Seed uint64
	// Reading defines how texts become sequences.
	Reading source.Reading
	// Ordinary is the number of ordinary tokens: the words of the vocabulary, or the bytes.
	Ordinary int
	// Generator reports whether the model makes images and predicts no labels.
	Generator bool
	// Prepared reports whether there is a prepare.classifier.
	Prepared bool
	// Trained is the number of trainable parameters, 0 for an invalid model.
	Trained int
	// TrainedTensors is the number of tensors that they form.
	TrainedTensors int
	// Untied reports whether the output layer has separate weights.
	Untied bool
	// Owned reports whether the users are the source's users, or parts of them.
	Owned bool
	// HeldOutUsers is the share of the balanced users that never train.
	HeldOutUsers numbers.Probability
	// Own reports whether users train on their own examples and canaries: no selection, sanitizing,
	// filtering, or division among devices.
	Own bool
	// TestFraction is the share of the examples that is held out; TestSplit, if not empty, is the split held
	// out instead.
	TestFraction numbers.Probability
	TestSplit    string
	// Design is canaries.design, the default design of audits' own canaries. It is set only while the audits are
	// completed.
	Design canaries.Design
	// Canaries are the canaries of the canaries block. It may be nil.
	Canaries *Canaries
	// Devices is nil if users are not divided into devices.
	Devices  *Devices
	Training Training
	// External scores by a command instead of a model of Coalmine. It may be nil.
	External *external.ModelParams
	// TestTokens is the number of tokens of the test part; 0 before the data are read.
	TestTokens float64
	// Records reports whether the training keeps updates of devices. Recorded describes them. It is nil if
	// there are none, or if the model or its layers are invalid.
	Records  bool
	Recorded *Recorded
	// Program, if set, trains and scores the models instead of Coalmine.
	Program *clientprograms.Program
	// Audits are the requested audits.
	Audits []Fields
	// Data is nil before the data are read.
	Data *Data
}

// Work of an optimizer's step per parameter, in operations at the speed of matrix products: 4 and 1 ns on a
// core of 243 GFLOP/s.
const (
	RMSPropWork  = 280
	MomentumWork = 70
)

// UpdatesWork returns the work of training a network, with units in its first layer, on a number of the
// recorded updates: for each, one forward pass, two backward, and a share of a step.
func (s *Setting) UpdatesWork(units int, updates, step float64) float64 {
	if s.Recorded == nil {
		return 0
	}
	return (6 + step) * float64(s.Recorded.Layout.Values()) * float64(units) * updates
}

func (s *Setting) RecordedUpdates() float64 {
	if s.Recorded == nil {
		return 0
	}
	return float64(len(s.Recorded.RoundsOf(s.Training.Rounds)) * s.Training.Cohort)
}

// Recorded describes the updates that a training keeps.
type Recorded struct {
	updates.Recording
	// Layout is the layout of the recorded vectors.
	Layout updates.Layout
}

// FieldsOf returns the fields of an audit, if the experiment asks for it.
func FieldsOf[F Fields](s *Setting) (F, bool) {
	for _, fields := range s.Audits {
		if f, ok := fields.(F); ok {
			return f, true
		}
	}
	var none F
	return none, false
}

// Canaries are the canaries of the canaries block: a group for each format, numbered consecutively.
type Canaries struct {
	Groups []Group
	// Inserted is the number of canaries that are not held back.
	Inserted int
	// PerConfiguration is the number for each configuration and format. Inserted is proportional to it.
	PerConfiguration int
}

// Group is a run of canaries, inserted or held back, from one space.
type Group struct {
	canaries.Space
	Span
}

func (c *Canaries) Total() int {
	return int(c.Sum(func(g Group) float64 { return float64(g.Count) }))
}

// Sum adds up a number over the groups.
func (c *Canaries) Sum(of func(Group) float64) float64 {
	sum := 0.0
	for _, g := range c.Groups {
		sum += of(g)
	}
	return sum
}

// MinSequences returns the minimum number of sequences after the prefix, over all groups.
func (c *Canaries) MinSequences(ordinary, prefix int) float64 {
	fewest := math.Inf(1)
	for _, g := range c.Groups {
		fewest = min(fewest, g.Sequences(ordinary, g.Prefix(prefix)))
	}
	return fewest
}

// Split divides the canaries among tasks, at most atMost canaries of one space to each.
func (c *Canaries) Split(atMost int) []Group {
	return slices.Concat(lists.Map(c.Groups, func(g Group) []Group { return g.Split(atMost) })...)
}

func (g Group) Split(atMost int) []Group {
	return lists.Map(Split(g.Count, atMost), func(s Span) Group { return Group{g.Space, Span{g.First + s.First, s.Count}} })
}

// SplitByPrefix is Split for tasks that share work over a prefix: if the format fixes the prefix, one task
// has all canaries.
func (g Group) SplitByPrefix(prefix, atMost int) []Group {
	if g.FixesPrefix(prefix) {
		return []Group{g}
	}
	return g.Split(atMost)
}

// Devices is the division of users into devices.
type Devices struct {
	// Unseen and HeldOut are shares of the users; 0 in a closed world.
	Unseen, HeldOut numbers.Probability
	// IID reports whether devices have examples of all users, for comparison.
	IID bool
	// Profiles reports whether profiles have devices, too.
	Profiles bool
}

// Training describes the training of the models.
type Training struct {
	// Central reports whether training takes steps over records; federated training takes rounds over users.
	Central bool
	// Sampling is the sampling of a round's users; empty for central training.
	Sampling privacy.Sampling
	// NoiseMultiplier and Delta are those of the claimed privacy, or 0.
	NoiseMultiplier, Delta float64
	// Clip bounds the L2 norm of updates; 0: no bound.
	Clip float64
	// Quantized reports whether the measured models have rounded weights.
	Quantized bool
	// Compressed reports whether clients send fewer bytes than their updates have.
	Compressed bool
	// ClientNoise is the standard deviation of a client's noise in each element of its update.
	ClientNoise float64
	// Unit is the unit that a guarantee over the population's users protects.
	Unit string
	// Rounds is 0 before epochs are counted. Cohort is the mean number of users in a round.
	Rounds, Cohort int
	// Recipe is the recipe of the claimed privacy, without the population. Without privacy it has the same
	// rounds and no noise.
	Recipe privacy.Recipe
}

// Data describes the data of one cell.
type Data struct {
	// Source names the data.
	Source string
	// Users are balanced and train, on their Examples.
	Users, Examples int
	// Joining is the number of canary clients that audits add to Users.
	Joining      int
	TestExamples int
	// Carriers is the mean number of these users with a canary of the canaries block.
	Carriers int
	// HeldOutUsers are balanced and never train.
	HeldOutUsers int
	// Seen, Unseen and HeldOut are numbers of users, if users are divided into devices, which Users then counts.
	Seen, Unseen, HeldOut int
	// Secrets is the number of different natural secrets of the source, for audit.natural; nil if unknown.
	Secrets *int
}

// Owners returns the number of users that are divided into devices; 0 if unknown.
func (s *Setting) Owners() int {
	if s.Data == nil {
		return 0
	}
	return s.Data.Seen + s.Data.Unseen + s.Data.HeldOut
}

// Observed returns the number of users whose anonymous updates are observed; 0 if unknown.
func (s *Setting) Observed() int {
	if s.Data == nil {
		return 0
	}
	if owners := s.Owners(); owners > 0 {
		return owners
	}
	return s.Data.Users
}

// TrainTokens returns the number of tokens of the training part, estimated from the test part.
func (s *Setting) TrainTokens() float64 {
	test := s.TestFraction.Float64()
	if test == 0 {
		return s.TestTokens
	}
	return s.TestTokens * (1 - test) / test
}

// HasTest reports whether there is a test part.
func (s *Setting) HasTest() bool { return s.TestSplit != "" || !s.TestFraction.IsZero() }

// ByProgram adds the vocabulary for a client's program to the inputs of a task that measures a model.
func ByProgram(b Builder, inputs ...tasks.Input) []tasks.Input {
	if b.Setting().Program == nil {
		return inputs
	}
	return append(inputs, tasks.Input{Name: external.VocabularyInput, Key: b.Parts()})
}

// CheckTest reports an audit that lacks a test part; remedy is the alternative.
func CheckTest(s *Setting, fail Fail, path, remedy string) {
	fail.If(!s.HasTest(), []string{path, "data.test.fraction"}, "needs a test part, but data.test.fraction is 0; raise it, or %s", remedy)
}

// CheckTestData reports a test part without examples.
func CheckTestData(s *Setting, d *Data, fail Fail, remedy string) {
	fail.If(d.TestExamples == 0, []string{"data.test.fraction"}, "is %s, which leaves the test part of %s empty; raise it, or %s", s.TestFraction, d.Source, remedy)
}

// Claim returns the recipe of the training on its data.
func (s *Setting) Claim(d *Data) privacy.Recipe {
	recipe := s.Training.Recipe
	recipe.Population, recipe.LossDistribution = d.Users+d.Joining, false
	if s.Training.Central {
		recipe.Population = d.Examples
	}
	return recipe
}

// DefaultDelta is the delta of an audit of epsilon if the training adds no noise.
const DefaultDelta = 1e-5

// DefaultDelta returns the delta of an audit of epsilon: the training's, if it adds noise.
func (s *Setting) DefaultDelta() float64 {
	if s.Training.NoiseMultiplier > 0 {
		return s.Training.Delta
	}
	return DefaultDelta
}

// CheckDelta reports, and returns, whether the delta of an audit of epsilon differs from the training's, with
// whose numbers it is compared.
func (s *Setting) CheckDelta(fail Fail, path string, delta float64, compared string) bool {
	p := s.Training
	return fail.If(p.NoiseMultiplier > 0 && p.Delta > 0 && delta != p.Delta, []string{path, "training.privacy.delta"}, "is %g, and training.privacy.delta is %g; %s can be compared only at the same delta: remove it here", delta, p.Delta, compared)
}
