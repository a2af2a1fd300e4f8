package audits

import (
	"context"
	"reflect"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/external"
	"coalmine/tasks/training"
)

// Fields are the fields that an audit adds to the audit block of an experiment: a pointer to a struct,
// usually of one field, a pointer to a block. An experiment asks for the audit by the first field; without
// it, the methods are not called. Tags and comments have the form of those in package experiment. Paths below
// are absolute: "audit.one_run.words".
type Fields interface {
	// Check reports contradictions between the fields and the experiment. Ranges of single fields
	// are in their tags.
	Check(s *Setting, fail Fail)
	// Compile adds the nodes that measure the model after a round, and returns the last of these nodes.
	Compile(b Builder, round int) storage.Key
}

// Asked reports whether an experiment asks for an audit.
func Asked(f Fields) bool { return !reflect.ValueOf(f).Elem().Field(0).IsZero() }

// Scorer is implemented by Fields of an audit that advances states of the model and scores them.
type Scorer interface {
	// States returns the approximate number of states for one measurement.
	States(s *Setting) float64
}

// Worker is implemented by Fields of an audit that also trains networks or fits distributions.
type Worker interface {
	// Work returns the approximate number of floating-point operations for one model, at the speed of the
	// model's own.
	Work(s *Setting) float64
}

// Fail reports a contradiction between fields, at the first path, unless one of them already has a mistake.
type Fail func(paths []string, format string, args ...any)

// If reports a contradiction if wrong is true, and returns wrong.
func (f Fail) If(wrong bool, paths []string, format string, args ...any) bool {
	if wrong {
		f(paths, format, args...)
	}
	return wrong
}

// Completer is implemented by Fields whose defaults follow from other fields.
type Completer interface {
	Complete(s *Setting, given func(path string) bool)
}

// DataChecker is implemented by Fields that do not fit all data.
type DataChecker interface {
	CheckData(s *Setting, d *Data, fail Fail)
}

// Warner is implemented by Fields that can be doubtful but valid.
type Warner interface {
	// Warnings returns warnings as sentences.
	Warnings(s *Setting, d *Data) []string
}

// Planter is implemented by Fields of an audit that changes the training data.
type Planter interface {
	// Plant adds the node of the changed population, with the blobs of datasets/partition and UnitsBlob.
	Plant(b Builder) storage.Key
}

// Sender is implemented by Fields of an audit whose canaries are vectors. The last users of federated
// training, or the last records of private central training, send them instead of their own updates. Without
// coins they are users without data that the audit adds after all others.
type Sender interface {
	// Sends reports whether this experiment has such canaries.
	Sends() bool
	// Clients describes the canaries.
	Clients(s *Setting) *canaries.Clients
	// Watch describes the vectors that the training follows for them. It may be nil.
	Watch(s *Setting) *canaries.Watch
	// Request returns the same canaries for a command that trains the whole model. It may be nil.
	Request() *external.OneShot
}

// Sends reports whether the canaries of an audit are vectors.
func Sends(f Fields) bool {
	s, ok := f.(Sender)
	return ok && s.Sends()
}

// Source is a source in addition to the data: its files are uploaded, and tasks open them by digest.
type Source struct {
	// Path is the path of its block, such as "audit.cross_modal.embeddings", with the fields source and sha256.
	Path, Source string
	SHA256       *string
	// Check reads all files and reports faults.
	Check func(context.Context, []source.File, source.Limits) error
}

// MaxReplaced is the share of the training data that an audit may replace without a warning.
const MaxReplaced = 0.01

// Builder adds nodes to the plan of one cell. Keys name nodes. Planters must not call Users, Model, Reference
// and Recorded.
type Builder interface {
	Setting() *Setting
	// Node adds a node, or finds an equal one. Inputs are keys of this builder.
	Node(kind tasks.Kind, label string, params any, inputs ...tasks.Input) storage.Key
	// Parts returns the datasets/encode node: the parts of the data and the vocabulary.
	Parts() storage.Key
	// Balanced returns the datasets/balance node: the users that train, and those that are held out.
	Balanced() storage.Key
	// Insertions returns the canaries/insert node, with the users of each canary; zero without canaries.
	Insertions() storage.Key
	// Canaries returns the canaries/draw node, if the setting has canaries.
	Canaries() storage.Key
	// Placements returns the datasets/partition node, with the canaries' places.
	Placements() storage.Key
	// Population returns the training population: the partition, as changed by the planters so far. Shards
	// has its text.
	Population() storage.Key
	Shards() storage.Key
	// Planted returns the result of Plant.
	Planted(p Planter) storage.Key
	// Users returns the datasets/import node, with the source's names of users, and the population whose
	// users are divided into devices.
	Users() (names, population storage.Key)
	// Devices returns the node of package devices; zero if users are not divided into devices.
	Devices() storage.Key
	// Files returns the files of a source of Description.Sources, by its path, and the limits of reading them.
	Files(path string) ([]storage.Digest, source.Limits)
	// Classifier returns the model of prepare.classifier, if there is one, and the datasets/encode node
	// without planted faults.
	Classifier() (model, clean storage.Key, ok bool)
	// Predicted returns selection/predictions nodes of that model: of the population before any selection,
	// and without planted faults.
	Predicted() (here, clean storage.Key, ok bool)
	// Initial returns the model before training.
	Initial() storage.Key
	// Model returns the model after an audited round.
	Model(round int) storage.Key
	// Reference returns the last model of the same training with other seeds, on the users of a
	// datasets/reference-users node, without canaries. References count from 0.
	Reference(reference int) storage.Key
	// Repeated returns the node that the fields compile in the same experiment and data, with another seed
	// and no other audit. Repetitions count from 0.
	Repeated(repetition int, fields Fields) storage.Key
	// Step returns the parameters of the training's tasks, without the secret.
	Step() Step
	// Recorded returns the updates/gather nodes, in the order of rounds.
	Recorded() []storage.Key
}

// Step holds the parameters of a round of federated training, of a private step of central training, or of a
// training by a command. Other trainings have only nil fields.
type Step struct {
	Round    *Round                `json:"round,omitempty"`
	Private  *training.DPSGDParams `json:"private,omitempty"`
	External *external.TrainParams `json:"external,omitempty"`
}

// Round holds the parameters of the tasks of a round.
type Round struct {
	Clients training.ClientsParams   `json:"clients"`
	Server  aggregation.ServerParams `json:"server"`
}

// Span is a range of Count items from First on.
type Span struct{ First, Count int }

// Split cuts n items into spans of at most size.
func Split(n, size int) []Span {
	var spans []Span
	for first := 0; first < n; first += size {
		spans = append(spans, Span{first, min(size, n-first)})
	}
	return spans
}
