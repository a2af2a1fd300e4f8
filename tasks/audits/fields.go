package audits

import (
	"context"
	"math"

	"coalmine/internal/fractions"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/canaryclients"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/tasks/updates"
)

// Fields are what an audit adds to the audit block of an experiment: a pointer to a
// struct, mostly with one field, a pointer to a block of others. Tags and comments are
// those of package experiment's types. Paths below are whole: "audit.one_run.words".
type Fields interface {
	// Asked reports whether the experiment asks for the audit. The other methods are
	// called only then.
	Asked() bool
	// Check reports what is wrong between the fields and the experiment around them.
	// Ranges of single fields are in their tags.
	Check(s *Setting, fail Fail)
	// Compile adds the nodes that measure the model after a round, and returns the last
	// of them.
	Compile(b Builder, round int) storage.Key
	// States is about how many states of the model have to be advanced and scored to
	// measure it once.
	States(s *Setting) float64
}

// Worker is implemented by Fields of an audit that computes more than the model's states: it trains
// networks on updates, or fits distributions.
type Worker interface {
	// Work is about how many floating-point operations that takes for one model, at the speed of
	// the model's own.
	Work(s *Setting) float64
}

// Fail reports a contradiction between fields, at the place of the first. It is silent
// where one of them is a mistake already.
type Fail func(paths []string, format string, args ...any)

// Completer is implemented by Fields whose defaults follow from other fields.
type Completer interface {
	// Complete fills in what the file does not give.
	Complete(s *Setting, given func(path string) bool)
}

// DataChecker is implemented by Fields that not all data fit.
type DataChecker interface {
	CheckData(s *Setting, d *Data, fail Fail)
}

// Warner is implemented by Fields that may be doubtful without being wrong.
type Warner interface {
	// Warnings are sentences.
	Warnings(s *Setting, d *Data) []string
}

// Planter is implemented by Fields of an audit that puts something of its own into the
// training data.
type Planter interface {
	// Plant adds the node of the changed population, and returns it. Its blobs are those
	// of datasets/partition, and UnitsBlob.
	Plant(b Builder) storage.Key
}

// Joiner is implemented by Fields of an audit that sends clients of its own into federated
// training. What it plants are their users, without data, behind those that there are.
type Joiner interface {
	Planter
	// Clients say what they send, and how many they are.
	Clients() *canaryclients.Clients
	// Watch is what the server follows for them; nil for nothing.
	Watch() *canaryclients.Watch
	// Told is what a command that trains the whole model is asked for in their place.
	Told() *external.OneShot
}

// Source is what an audit reads beside the data. Its files are uploaded as the data's are, and
// tasks open them by their digests.
type Source struct {
	// Path is that of its block, such as "audit.cross_modal.embeddings", with the fields
	// source and sha256.
	Path, Source string
	SHA256       *string
	// Check reads all files, and finds their faults.
	Check func(context.Context, []datasets.File, datasets.Limits) error
}

// Setting is the experiment around an audit, as far as audits may know it.
type Setting struct {
	Seed uint64
	// Reading is how texts become sequences.
	Reading datasets.Reading
	// Ordinary is the number of ordinary tokens: the words of the vocabulary, or the bytes.
	Ordinary int
	// Generator says that the model has one, and so makes images and predicts no labels.
	Generator bool
	// Prepared says that prepare.classifier is there.
	Prepared bool
	// Trained is the number of parameters that learn from data, 0 where the model is a mistake.
	Trained int
	// Untied says that the model's output layer has weights of its own.
	Untied bool
	// Owned says that the population's users are those of the source, or parts of them.
	Owned bool
	// HeldOutUsers is the share of the balanced users that never train.
	HeldOutUsers fractions.Probability
	// Own says that users train on examples of their own and canaries, wherever a shuffle puts
	// them: nothing is selected, sanitized, filtered, or divided among devices.
	Own bool
	// TestFraction is the share of the examples that are held out for measurements.
	TestFraction fractions.Probability
	// TestSplit is the split of the data that is held out for measurements in place of a
	// fraction; empty without.
	TestSplit string
	// Canaries are those of the canaries block; nil without one.
	Canaries *Canaries
	// Devices say how users are divided into devices; nil where they are not.
	Devices *Devices
	// Training is that of the models.
	Training Training
	// External says that the models are not ours: a command scores texts by them. nil where they
	// are.
	External *external.ModelParams
	// TestTokens are the tokens of the test part, 0 as long as the data were not read.
	TestTokens float64
	// Records says that the training keeps its devices' updates, Recorded what it keeps; nil
	// where it keeps nothing, and where the model or its layers are a mistake.
	Records  bool
	Recorded *Recorded
	// Program, where there is one, trains and scores the models in place of this program.
	Program *clientprograms.Program
	// Audits are the fields of all that are asked for.
	Audits []Fields
	// Data are nil as long as they were not read.
	Data *Data
}

// What a step of an optimizer takes for each parameter, measured as operations at the pace of a network's
// products: 4 and 1 ns on a core of 243 GFLOP/s.
const (
	RMSPropWork  = 280
	MomentumWork = 70
)

// UpdatesWork is the work of training a network with a first layer of so many units on as many of the
// recorded updates: one time forward, two back and, for each update, a share of a step.
func (s *Setting) UpdatesWork(units int, updates, step float64) float64 {
	if s.Recorded == nil {
		return 0
	}
	return (6 + step) * float64(s.Recorded.Layout.Values()) * float64(units) * updates
}

// RecordedUpdates is the number of updates that a training keeps.
func (s *Setting) RecordedUpdates() float64 {
	if s.Recorded == nil {
		return 0
	}
	return float64(len(s.Recorded.Of(s.Training.Rounds)) * s.Training.Cohort)
}

// Recorded is what a training keeps of its devices' updates.
type Recorded struct {
	updates.Recording
	// Layout is that of the recorded vectors.
	Layout updates.Layout
}

// FieldsOf finds the fields of an audit, if the experiment asks for it.
func FieldsOf[F Fields](s *Setting) (F, bool) {
	for _, fields := range s.Audits {
		if f, ok := fields.(F); ok {
			return f, true
		}
	}
	var none F
	return none, false
}

// Canaries are those of the canaries block: one group for each format, numbered one
// after another.
type Canaries struct {
	Groups []Group
	// Inserted is the number of all of them but for those held back.
	Inserted int
}

// Group is a run of canaries that are drawn from one space, those held back included.
type Group struct {
	canaries.Space
	Span
}

// Drawn is the number of all canaries, those held back included.
func (c *Canaries) Drawn() int {
	n := 0
	for _, g := range c.Groups {
		n += g.Count
	}
	return n
}

// FewestSequences is the least number of sequences that may follow the prefix that is
// asked for, over all groups, out of so many ordinary tokens.
func (c *Canaries) FewestSequences(ordinary, prefix int) float64 {
	fewest := math.Inf(1)
	for _, g := range c.Groups {
		fewest = min(fewest, g.Sequences(ordinary, g.Prefix(prefix)))
	}
	return fewest
}

// Split divides the canaries among tasks: groups of at most so many, all of one space.
func (c *Canaries) Split(atMost int) []Group {
	var parts []Group
	for _, g := range c.Groups {
		parts = append(parts, g.Split(atMost)...)
	}
	return parts
}

// Split divides the canaries of a group among tasks, at most so many to each.
func (g Group) Split(atMost int) []Group {
	var parts []Group
	for _, span := range Split(g.Count, atMost) {
		parts = append(parts, Group{g.Space, Span{g.First + span.First, span.Count}})
	}
	return parts
}

// SplitByPrefix divides the canaries of a group among tasks that look at what follows a
// prefix of so many symbols: one task has all where the format fixes the prefix, else each
// has at most so many.
func (g Group) SplitByPrefix(prefix, atMost int) []Group {
	if g.FixesPrefix(prefix) {
		return []Group{g}
	}
	return g.Split(atMost)
}

// Devices say how users are divided into devices (package devices).
type Devices struct {
	// Unseen and HeldOut are the shares of the users in these sets; 0 in a closed world.
	Unseen, HeldOut fractions.Probability
	// IID devices have examples of all users: a control.
	IID bool
	// Profiles have devices, too.
	Profiles bool
}

// Training is how the models are trained.
type Training struct {
	// Central training takes steps over records; federated, rounds over users.
	Central bool
	// Sampling of the users of a round; empty for central training.
	Sampling privacy.Sampling
	// NoiseMultiplier and Delta are those of the privacy that is claimed; 0 without.
	NoiseMultiplier, Delta float64
	// Clip bounds the L2 norm of updates; 0 does not.
	Clip float64
	// Quantized says that the models which are measured have rounded weights.
	Quantized bool
	// ClientNoise is the standard deviation of what a client adds to each element of its
	// update; 0 without.
	ClientNoise float64
	// Unit is what a privacy guarantee over the population's users protects.
	Unit string
	// Rounds and the users of each, in the mean; Rounds is 0 as long as epochs are not counted.
	Rounds, Cohort int
	// Recipe is what the privacy that is claimed depends on, but for the population; without
	// privacy that of the same rounds without noise.
	Recipe privacy.Recipe
}

// Data is what reading the data tells of one cell.
type Data struct {
	// Label names the cell for people, Source the data.
	Label, Source string
	// Users are balanced and train, on their Examples.
	Users, Examples int
	// TestExamples are the examples of the test part.
	TestExamples int
	// HeldOutUsers are the balanced users that never train.
	HeldOutUsers int
	// Seen, Unseen and HeldOut are the users in these sets where they are divided into
	// devices, which Users then counts.
	Seen, Unseen, HeldOut int
}

// Owners is the number of users that are divided into devices; 0 as long as it is not known.
func (s *Setting) Owners() int {
	if s.Data == nil {
		return 0
	}
	return s.Data.Seen + s.Data.Unseen + s.Data.HeldOut
}

// MaxReplaced is the share of the training data above which what is put into them for
// an audit changes what the model learns.
const MaxReplaced = 0.01

// Builder adds nodes to the plan of one cell. Nodes are named by their keys.
type Builder interface {
	// Setting is the experiment of the cell.
	Setting() *Setting
	// Node adds a node, or finds the equal one. Inputs are keys that the builder has
	// given. label is for people.
	Node(kind tasks.Kind, label string, params any, inputs ...tasks.Input) storage.Key
	// Parts is the datasets/encode node: the parts of the data and the vocabulary.
	Parts() storage.Key
	// Balanced is the datasets/balance node: the users that train, before any partition, and
	// those that are held out.
	Balanced() storage.Key
	// Insertions is the canaries/insert node, which knows who carries canaries; zero without
	// canaries.
	Insertions() storage.Key
	// Canaries is the canaries/draw node; there is one where the setting has canaries.
	Canaries() storage.Key
	// Placements is the datasets/partition node, which knows where the canaries went.
	Placements() storage.Key
	// Population is what is trained on: the partition, or what the planters so far have
	// made of it. Shards is where its text stands.
	Population() storage.Key
	Shards() storage.Key
	// Planted is what Plant of these fields has returned.
	Planted(p Planter) storage.Key
	// Users are datasets/import, which knows the names of the source's users, and the
	// population whose users are divided into devices; not known to planters.
	Users() (names, population storage.Key)
	// Devices is the node of package devices that says whose each user of the population is;
	// zero where users are not divided into devices.
	Devices() storage.Key
	// Files are those of the source of a path, of Description.Sources, and the limits of reading
	// them.
	Files(path string) ([]storage.Digest, datasets.Limits)
	// Classifier is the model of prepare.classifier, and clean the datasets/encode node of
	// the data without planted faults; neither is there without such a preparation.
	Classifier() (model, clean storage.Key, ok bool)
	// Predicted are what that model predicts for the population before anything is selected,
	// and for the one without planted faults: selection/predictions nodes, which are the same
	// where nothing is planted. Neither is there without such a preparation.
	Predicted() (here, clean storage.Key, ok bool)
	// Initial is the model before training; not known to planters.
	Initial() storage.Key
	// Model is the model after an audited round; not known to planters.
	Model(round int) storage.Key
	// Reference is the last model of the same training on the users of a
	// datasets/reference-users node, without canaries, by seeds of its own; not known to
	// planters. References count from 0.
	Reference(reference int) storage.Key
	// Recorded are the updates/gather nodes of what the training keeps of its devices'
	// updates, in the order of rounds; none without, and not known to planters.
	Recorded() []storage.Key
}

// Span is a run of items: Count of them from First on.
type Span struct{ First, Count int }

// Split cuts n items into spans of at most size, one for each task.
func Split(n, size int) []Span {
	var spans []Span
	for first := 0; first < n; first += size {
		spans = append(spans, Span{first, min(size, n-first)})
	}
	return spans
}

// TrainTokens are those of the training part, estimated from the test part.
func (s *Setting) TrainTokens() float64 {
	test := s.TestFraction.Float64()
	if test == 0 {
		return s.TestTokens
	}
	return s.TestTokens * (1 - test) / test
}

// HasTest reports whether there is a test part.
func (s *Setting) HasTest() bool { return s.TestSplit != "" || !s.TestFraction.IsZero() }
