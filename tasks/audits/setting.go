package audits

import (
	"math"

	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/tasks/updates"
)

// Setting is the experiment around an audit.
type Setting struct {
	Seed uint64
	// Reading says how texts become sequences.
	Reading datasets.Reading
	// Ordinary tokens: the words of the vocabulary, or the bytes.
	Ordinary int
	// Generator: the model makes images and predicts no labels.
	Generator bool
	// Prepared: prepare.classifier is there.
	Prepared bool
	// Trained is the number of trainable parameters, 0 for a wrong model.
	Trained int
	// Untied: the output layer has weights of its own.
	Untied bool
	// Owned: the users are those of the source, or parts of them.
	Owned bool
	// HeldOutUsers is the share of the balanced users that never train.
	HeldOutUsers numbers.Probability
	// Own: users train on their own examples and canaries: nothing is selected, sanitized, filtered, or
	// divided among devices.
	Own bool
	// TestFraction of the examples is held out, or the split TestSplit, if not empty.
	TestFraction numbers.Probability
	TestSplit    string
	// Canaries of the canaries block; nil without one.
	Canaries *Canaries
	// Devices; nil if users are not divided into devices.
	Devices  *Devices
	Training Training
	// External scores texts by a command in place of our models; nil for ours.
	External *external.ModelParams
	// TestTokens of the test part; 0 before the data were read.
	TestTokens float64
	// Records: the training keeps updates of devices. Recorded describes them; nil without, or if the model
	// or its layers are wrong.
	Records  bool
	Recorded *Recorded
	// Program, if set, trains and scores the models in place of this program.
	Program *clientprograms.Program
	// Audits that the experiment asks for.
	Audits []Fields
	// Data is nil before the data were read.
	Data *Data
}

// Work of an optimizer's step for each parameter, in operations at the pace of matrix products: 4 and 1 ns
// on a core of 243 GFLOP/s.
const (
	RMSPropWork  = 280
	MomentumWork = 70
)

// UpdatesWork is the work of training a network, with units in its first layer, on a number of the recorded
// updates: one pass forward, two back, and a share of a step for each.
func (s *Setting) UpdatesWork(units int, updates, step float64) float64 {
	if s.Recorded == nil {
		return 0
	}
	return (6 + step) * float64(s.Recorded.Layout.Values()) * float64(units) * updates
}

// RecordedUpdates is the number of recorded updates.
func (s *Setting) RecordedUpdates() float64 {
	if s.Recorded == nil {
		return 0
	}
	return float64(len(s.Recorded.Of(s.Training.Rounds)) * s.Training.Cohort)
}

// Recorded describes the updates that a training keeps.
type Recorded struct {
	updates.Recording
	// Layout of the recorded vectors.
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

// Canaries of the canaries block: a group for each format, numbered one after another.
type Canaries struct {
	Groups []Group
	// Inserted is the number of those that are not held back.
	Inserted int
	// PerConfiguration is the number of each configuration and format, with which Inserted grows in proportion.
	PerConfiguration int
}

// Group is a run of canaries, inserted or held back, from one space.
type Group struct {
	canaries.Space
	Span
}

// Drawn is the number of all canaries.
func (c *Canaries) Drawn() int {
	return int(c.Sum(func(g Group) float64 { return float64(g.Count) }))
}

// Sum adds up a number of each group.
func (c *Canaries) Sum(of func(Group) float64) float64 {
	sum := 0.0
	for _, g := range c.Groups {
		sum += of(g)
	}
	return sum
}

// FewestSequences is the least number of sequences after the prefix, over all groups.
func (c *Canaries) FewestSequences(ordinary, prefix int) float64 {
	fewest := math.Inf(1)
	for _, g := range c.Groups {
		fewest = min(fewest, g.Sequences(ordinary, g.Prefix(prefix)))
	}
	return fewest
}

// Split divides the canaries among tasks, at most n of one space to each.
func (c *Canaries) Split(atMost int) []Group {
	var parts []Group
	for _, g := range c.Groups {
		parts = append(parts, g.Split(atMost)...)
	}
	return parts
}

func (g Group) Split(atMost int) []Group {
	var parts []Group
	for _, span := range Split(g.Count, atMost) {
		parts = append(parts, Group{g.Space, Span{g.First + span.First, span.Count}})
	}
	return parts
}

// SplitByPrefix is Split for tasks that share work over a prefix: one task has all if the format fixes the
// prefix.
func (g Group) SplitByPrefix(prefix, atMost int) []Group {
	if g.FixesPrefix(prefix) {
		return []Group{g}
	}
	return g.Split(atMost)
}

// Devices says how users are divided into devices.
type Devices struct {
	// Unseen and HeldOut shares of the users; 0 in a closed world.
	Unseen, HeldOut numbers.Probability
	// IID: devices have examples of all users, for comparison.
	IID bool
	// Profiles have devices, too.
	Profiles bool
}

// Training describes the training of the models.
type Training struct {
	// Central training takes steps over records, federated training rounds over users.
	Central bool
	// Sampling of a round's users; empty for central training.
	Sampling privacy.Sampling
	// NoiseMultiplier and Delta of the claimed privacy; 0 without.
	NoiseMultiplier, Delta float64
	// Clip bounds the L2 norm of updates; 0: none.
	Clip float64
	// Quantized: the measured models have rounded weights.
	Quantized bool
	// Compressed: clients send fewer bytes than their updates have.
	Compressed bool
	// ClientNoise is the standard deviation of a client's noise in each element of its update.
	ClientNoise float64
	// Unit that a guarantee over the population's users protects.
	Unit string
	// Rounds, 0 before epochs are counted, and the mean number of users in each.
	Rounds, Cohort int
	// Recipe of the claimed privacy, but for the population; without privacy that of the same rounds
	// without noise.
	Recipe privacy.Recipe
}

// Data describes the data of one cell.
type Data struct {
	// Label names the cell, Source the data.
	Label, Source string
	// Users are balanced and train, on their Examples.
	Users, Examples int
	TestExamples    int
	// Carriers are the users among them that carry a canary of the block canaries, on average.
	Carriers int
	// HeldOutUsers are balanced and never train.
	HeldOutUsers int
	// Seen, Unseen and HeldOut users, if users are divided into devices, which Users then counts.
	Seen, Unseen, HeldOut int
}

// Owners is the number of users that are divided into devices; 0 if not known.
func (s *Setting) Owners() int {
	if s.Data == nil {
		return 0
	}
	return s.Data.Seen + s.Data.Unseen + s.Data.HeldOut
}

// Observed is the number of users whose anonymous updates are seen; 0 if not known.
func (s *Setting) Observed() int {
	if s.Data == nil {
		return 0
	}
	if owners := s.Owners(); owners > 0 {
		return owners
	}
	return s.Data.Users
}

// TrainTokens of the training part, estimated from the test part.
func (s *Setting) TrainTokens() float64 {
	test := s.TestFraction.Float64()
	if test == 0 {
		return s.TestTokens
	}
	return s.TestTokens * (1 - test) / test
}

// HasTest reports whether there is a test part.
func (s *Setting) HasTest() bool { return s.TestSplit != "" || !s.TestFraction.IsZero() }

// ByProgram adds to the inputs of a task that looks at a model the vocabulary for a client's program.
func ByProgram(b Builder, inputs ...tasks.Input) []tasks.Input {
	if b.Setting().Program == nil {
		return inputs
	}
	return append(inputs, tasks.Input{Name: external.VocabularyInput, Key: b.Parts()})
}

// CheckTest reports an audit that lacks a test part; remedy is the other way out.
func CheckTest(s *Setting, fail Fail, path, remedy string) {
	if !s.HasTest() {
		fail([]string{path, "data.test.fraction"}, "needs a test part, but data.test.fraction is 0; raise it, or %s", remedy)
	}
}

// CheckTestData reports a test part without examples.
func CheckTestData(s *Setting, d *Data, fail Fail, remedy string) {
	if d.TestExamples == 0 {
		fail([]string{"data.test.fraction"}, "is %s, which leaves the test part of %s empty; raise it, or %s", s.TestFraction, d.Source, remedy)
	}
}

// DefaultDelta is the delta of an audit of epsilon without a training that adds noise.
const DefaultDelta = 1e-5

// DefaultDelta is the delta of an audit of epsilon: that of the training, if it adds noise.
func (s *Setting) DefaultDelta() float64 {
	if s.Training.NoiseMultiplier > 0 {
		return s.Training.Delta
	}
	return DefaultDelta
}

// CheckDelta reports, and returns, whether an audit of epsilon has another delta than the training, with
// which its numbers are compared.
func (s *Setting) CheckDelta(fail Fail, path string, delta float64, compared string) bool {
	p := s.Training
	differs := p.NoiseMultiplier > 0 && p.Delta > 0 && delta != p.Delta
	if differs {
		fail([]string{path, "training.privacy.delta"}, "is %g, and training.privacy.delta is %g; %s can be compared only at the same delta: remove it here", delta, p.Delta, compared)
	}
	return differs
}
