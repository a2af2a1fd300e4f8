// Package tasks defines tasks and their kinds. The packages below it implement the kinds, and hold the code that
// several kinds share:
//
//	datasets        import, encode, balance, partition
//	canaries        draw, insert
//	selection       the part of a population that trains
//	devices         the division of users into devices
//	training        initial model, client chunks, central SGD
//	aggregation     the server step of a round
//	external        trainings by external commands
//	updates         the recorded updates of devices
//	audits          measurements of a model; each audit has a folder below
//	reports         the result of a cell
//	checkpoints     the state that passes between the steps of a training
//	pretrained      trained language models in Hugging Face's layout
//	clientprograms  requests of tasks to programs that train clients
//	attempts        messages between coordinator and workers; no kind imports it
//
// A task is a pure function of its parameters and its inputs: the same key gives the same bytes on
// every worker, in every execution and order. It reads through a Source, writes through a Sink, and
// knows nothing of queues, attempts, hosts or clocks.
package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/internal/secrets"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks/clientprograms"
)

// Spec is the description of a node that the plan sends to a worker.
type Spec struct {
	Key     storage.Key
	Kind    string
	Version int
	Params  json.RawMessage
	Inputs  []Input
	// Step and Part place a task in a training chain: steps count from 1, parts
	// from 0. Both are 0 for standing nodes.
	Step int
	Part int
	// SecretKey is the fingerprint of the secret key that a worker must hold to run the task, "" if
	// it needs none. It repeats a parameter for readers without the kind, and is not part of the
	// key.
	SecretKey string
	// Class is the queue of the task, "" for the queue of its kind. It is not part of the key.
	Class Class
	// Terms limit an external command, as JSON: its time, its environment variables. They are not
	// part of the key, because results do not depend on them.
	Terms json.RawMessage
}

// SegmentSteps is the number of steps of a chain with one permanent record: the commit of every
// hundredth step has the metric rows of its segment as one Parquet blob, and other commits of the
// segment are deleted.
const SegmentSteps = 100

// Names of blobs that the coordinator and exports use.
const (
	// ModelBlob is a checkpoint: a safetensors file with the model's parameters.
	ModelBlob = "model"
	// OptimizerBlob is the optimizer state of a checkpoint, if any.
	OptimizerBlob = "optimizer"
	// RowsBlob is a JSON array with the metric rows of the open segment.
	RowsBlob = "rows"
	// SegmentBlob is a Parquet file with the metric rows of a whole segment.
	SegmentBlob = "segment"
)

// PreviousInput is the input name of the previous step in a chain.
const PreviousInput = "previous"

// PartInput returns the input name of part j of a step, from 0.
func PartInput(j int) string { return fmt.Sprintf(partPrefix+"%d", j) }

const partPrefix = "part-"

// IsPart reports whether an input name comes from PartInput.
func IsPart(name string) bool {
	number, found := strings.CutPrefix(name, partPrefix)
	_, err := strconv.Atoi(number)
	return found && err == nil
}

// Input names a node that a task reads.
type Input struct {
	Name string
	Key  storage.Key
}

// Kind is a kind of task.
type Kind struct {
	// Name is "family/verb", for instance "training/clients".
	Name string
	// Version rises whenever the bytes that Run writes change.
	Version int
	// Class is the queue of the kind: one per kind of resource.
	Class Class
	// Command reports whether the kind runs an external command: its tasks have the terms of the
	// experiment, and one of the classes of commands.
	Command bool
	// Run does the work. It MUST be deterministic, MUST return soon after ctx is done, and MUST
	// write the same blobs in every execution. An error wrapped by Permanent is not retried.
	Run func(ctx context.Context, t *Task) error
}

// Class names a queue. Workers serve one or more classes.
type Class string

const (
	// Compute is for tasks that keep one core busy.
	Compute Class = "compute"
	// Commands is for commands of experiments: a client that may submit one can run programs on
	// its workers.
	Commands Class = "commands"
	// GPU is for commands that need a GPU.
	GPU Class = "gpu"
)

// Choices lists the classes for an experiment file. There Compute stands for Commands, because the
// file itself names its commands.
func (Class) Choices() []string { return []string{string(Compute), string(GPU)} }

// NewSpec builds the spec of a standing node and derives its key. params is
// marshalled as JSON; a value that JSON cannot hold is an error.
func NewSpec(kind Kind, params any, inputs ...Input) (Spec, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return Spec{}, fmt.Errorf("parameters of %s cannot be hashed: %w", kind.Name, err)
	}
	s := Spec{Kind: kind.Name, Version: kind.Version, Params: raw, Inputs: inputs}
	s.Key = s.hash()
	return s, nil
}

func (s *Spec) hash() storage.Key {
	h := NewHasher("node")
	h.String(s.Kind)
	h.Uint(uint64(s.Version))
	h.String(string(s.Params))
	for _, in := range s.Inputs {
		h.String(in.Name)
		h.Key(in.Key)
	}
	return h.Sum()
}

// Source supplies the outputs of a task's inputs. Implementations check digests and may cache:
// blobs are immutable.
type Source interface {
	// Commit returns the record of a node, with the names and sizes of its blobs.
	Commit(ctx context.Context, node storage.Key) (*storage.Commit, error)
	// Blob returns a whole blob of a node. The caller MUST NOT modify it.
	Blob(ctx context.Context, node storage.Key, name string) ([]byte, error)
	// BlobRange returns length bytes of a blob from offset.
	BlobRange(ctx context.Context, node storage.Key, name string, offset, length int64) ([]byte, error)
	// Imported opens an imported source by its digest.
	Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error)
}

// Sink stores the outputs of a task.
type Sink interface {
	// Put stores one output blob. Names are unique within a task. The sink takes ownership of data.
	Put(ctx context.Context, name string, data []byte, durability storage.Durability) error
}

// Keeper is a Sink that can make a blob of another node an output of the task without reading its
// bytes.
type Keeper interface {
	Sink
	// Keep stores blob of node as the output under name. A durable blob is compared with
	// its checksums; damage to other blobs is found on reading.
	Keep(ctx context.Context, name string, node storage.Key, blob storage.Blob, durability storage.Durability) error
}

// Memo keeps decoded values between tasks of one worker (a model, an index), so that the tasks of a
// round decode them once. Values MUST NOT be changed after load has returned them.
type Memo interface {
	// Get returns the value under key, calling load at most once at a time.
	// size is the value's memory in bytes, for eviction.
	Get(key string, load func() (value any, size int64, err error)) (any, error)
}

// Task is one execution of a spec.
type Task struct {
	Spec
	source  Source
	sink    Sink
	memo    Memo
	report  func(Progress)
	keys    *secrets.Keyring
	clients clientprograms.Runner
	write   []string
	set     []string
	cores   *goroutines.Cores
	said    func(lines []string)
	metrics json.RawMessage
	differs bool
}

// Progress is the progress of a task, for display only.
type Progress struct {
	// Done and Total count units of work; Total is 0 if unknown.
	Done, Total int64
	// Tokens is the number of training or scoring tokens handled so far.
	Tokens int64
	// Metrics are the newest numbers of a training by a program, by name; nil for other tasks.
	Metrics map[string]float64
}

// NewTask binds a spec to its source and sink. report and memo may be nil.
func NewTask(spec Spec, source Source, sink Sink, memo Memo, report func(Progress)) *Task {
	return &Task{Spec: spec, source: source, sink: sink, memo: memo, report: report}
}

// WithKeys sets the worker's secret keys and returns the task.
func (t *Task) WithKeys(keys *secrets.Keyring) *Task {
	t.keys = keys
	return t
}

// WithClients sets the runner of client programs and returns the task.
func (t *Task) WithClients(r clientprograms.Runner) *Task {
	t.clients = r
	return t
}

// WithWritable sets the directories that commands may write to in addition to their own, and
// returns the task.
func (t *Task) WithWritable(directories []string) *Task {
	t.write = directories
	return t
}

// Writable returns the directories that commands may write to in addition to their own.
func (t *Task) Writable() []string { return t.write }

// WithVariables sets environment variables of commands, as NAME=VALUE, and returns the task.
func (t *Task) WithVariables(variables []string) *Task {
	t.set = variables
	return t
}

// Variables returns the additional environment variables of commands, as NAME=VALUE.
func (t *Task) Variables() []string { return t.set }

// WithCores sets the cores that the task may borrow in addition to its own, and returns the task.
func (t *Task) WithCores(cores *goroutines.Cores) *Task {
	t.cores = cores
	return t
}

// Cores returns the cores that the task may borrow for work that it divides. Its outputs must not depend on their
// number.
func (t *Task) Cores() *goroutines.Cores { return t.cores }

// WithLineReceiver sets the receiver of the lines that the task's command prints, and returns the task.
func (t *Task) WithLineReceiver(said func(lines []string)) *Task {
	t.said = said
	return t
}

// ReportLines reports the last lines printed by a successful command, for display only.
func (t *Task) ReportLines(lines []string) {
	if t.said != nil && len(lines) > 0 {
		t.said(lines)
	}
}

// Client borrows a program that trains clients. The caller must give it back.
func (t *Task) Client(ctx context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	if t.clients == nil {
		return nil, Permanent(fmt.Errorf("%s asks the program %q, and nothing here runs commands of experiments: it takes --allow-commands", t.Kind, s.Command))
	}
	return t.clients.Borrow(ctx, s)
}

// Secret hides noise and cohorts of a training from readers of the results and the experiment. It
// is part of the parameters, and contains no secret.
type Secret struct {
	// Key is the fingerprint of the key, which the worker holds.
	Key string `json:"key"`
	// Training distinguishes the streams of trainings under one key: equal noise would cancel
	// between two released models.
	Training string `json:"training"`
}

// Stream returns the generator of a role, from the experiment's seed or, if secret is not nil, from
// the key that it names. It is an error if the worker lacks the key; another worker may have it.
func (t *Task) Stream(seed uint64, secret *Secret, role seeds.Role, indices ...uint64) (*rand.Rand, error) {
	key, err := t.streamKey(seed, secret, role, indices)
	if err != nil {
		return nil, err
	}
	return rand.New(rand.NewChaCha8(key)), nil
}

// Normals draws the numbers of Stream's NormFloat64, but faster.
func (t *Task) Normals(seed uint64, secret *Secret, role seeds.Role, indices ...uint64) (*seeds.Normals, error) {
	key, err := t.streamKey(seed, secret, role, indices)
	if err != nil {
		return nil, err
	}
	return seeds.NewNormals(key), nil
}

func (t *Task) streamKey(seed uint64, secret *Secret, role seeds.Role, indices []uint64) ([32]byte, error) {
	if secret == nil {
		return seeds.StreamKey(seed, role, indices...), nil
	}
	key, err := t.keys.Key(secret.Key)
	if err != nil {
		return [32]byte{}, fmt.Errorf("%s: %w", t.Kind, err)
	}
	return seeds.SecretStreamKey(key.Bytes(), secret.Training, role, indices...), nil
}

// Decode reads the parameters into the kind's parameter struct; unknown fields
// are an error, so that a worker of another version cannot misread them.
func (t *Task) Decode(into any) error {
	d := json.NewDecoder(bytes.NewReader(t.Params))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Permanent(fmt.Errorf("parameters of %s: %w", t.Kind, err))
	}
	return nil
}

// WithParams returns the Run of a kind that decodes the parameters of a task and calls run.
func WithParams[P any](run func(ctx context.Context, t *Task, p *P) error) func(context.Context, *Task) error {
	return func(ctx context.Context, t *Task) error {
		p := new(P)
		if err := t.Decode(p); err != nil {
			return err
		}
		return run(ctx, t, p)
	}
}

// Input returns the key of the named input.
func (t *Task) Input(name string) (storage.Key, error) {
	for _, in := range t.Inputs {
		if in.Name == name {
			return in.Key, nil
		}
	}
	return storage.Key{}, Permanent(fmt.Errorf("%s has no input %q", t.Kind, name))
}

// Has reports whether the task has the named input.
func (t *Task) Has(name string) bool {
	_, err := t.Input(name)
	return err == nil
}

// Blob returns a whole blob of the named input. The caller must not modify it.
func (t *Task) Blob(ctx context.Context, input, name string) ([]byte, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return t.source.Blob(ctx, key, name)
}

// BlobSize returns the size in bytes of a blob of the named input.
func (t *Task) BlobSize(ctx context.Context, input, name string) (int64, error) {
	_, b, err := t.find(ctx, input, name)
	return b.Size, err
}

// HasBlob reports whether the node of the named input has a blob.
func (t *Task) HasBlob(ctx context.Context, input, name string) (bool, error) {
	key, err := t.Input(input)
	if err != nil {
		return false, err
	}
	c, err := t.source.Commit(ctx, key)
	if err != nil {
		return false, err
	}
	_, there := c.Blob(name)
	return there, nil
}

// BlobNames lists the blobs of the named input, in order.
func (t *Task) BlobNames(ctx context.Context, input string) ([]string, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	c, err := t.source.Commit(ctx, key)
	if err != nil {
		return nil, err
	}
	names := lists.Map(c.Blobs, func(b storage.Blob) string { return b.Name })
	slices.Sort(names)
	return names, nil
}

// find returns the blob's entry in the commit of the named input, and the key of the input.
func (t *Task) find(ctx context.Context, input, name string) (storage.Key, storage.Blob, error) {
	key, err := t.Input(input)
	if err != nil {
		return key, storage.Blob{}, err
	}
	c, err := t.source.Commit(ctx, key)
	if err != nil {
		return key, storage.Blob{}, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return key, b, Permanent(fmt.Errorf("node %s (%s@%d) has no blob %q", key.Short(), c.Kind, c.KindVersion, name))
	}
	return key, b, nil
}

// BlobRange returns length bytes of a blob of the named input from offset.
func (t *Task) BlobRange(ctx context.Context, input, name string, offset, length int64) ([]byte, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return t.source.BlobRange(ctx, key, name, offset, length)
}

// InputMetrics decodes the metrics of the named input's commit.
func (t *Task) InputMetrics(ctx context.Context, input string, into any) error {
	key, err := t.Input(input)
	if err != nil {
		return err
	}
	c, err := t.source.Commit(ctx, key)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(c.Metrics, into); err != nil {
		return Permanent(fmt.Errorf("metrics of %s %s: %w", c.Kind, key.Short(), err))
	}
	return nil
}

// InputJSON decodes a blob of the named input. An error of the JSON is permanent, because a retry
// reads the same bytes.
func (t *Task) InputJSON(ctx context.Context, input, blob string, into any) error {
	data, err := t.Blob(ctx, input, blob)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return Permanent(fmt.Errorf("%s of %s: %w: %w", blob, input, err, storage.ErrCorrupt))
	}
	return nil
}

// Imported opens an imported source.
func (t *Task) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return t.source.Imported(ctx, digest)
}

// Put stores a durable output.
func (t *Task) Put(ctx context.Context, name string, data []byte) error {
	return t.sink.Put(ctx, name, data, storage.Durable)
}

// PutJSON stores a durable output as JSON.
func (t *Task) PutJSON(ctx context.Context, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return Permanent(fmt.Errorf("%s of %s: %w", name, t.Kind, err))
	}
	return t.Put(ctx, name, data)
}

// PutRecomputable stores an output that is cheap to recompute and may be lost by a power cut.
func (t *Task) PutRecomputable(ctx context.Context, name string, data []byte) error {
	return t.sink.Put(ctx, name, data, storage.Recomputable)
}

// Keep makes a blob of the named input a durable output under another name. If the store supports
// it, the blob is neither read nor written.
func (t *Task) Keep(ctx context.Context, input, blob, name string) error {
	return t.keep(ctx, input, blob, name, storage.Durable)
}

// KeepRecomputable is Keep for blobs that a power cut may lose.
func (t *Task) KeepRecomputable(ctx context.Context, input, blob, name string) error {
	return t.keep(ctx, input, blob, name, storage.Recomputable)
}

func (t *Task) keep(ctx context.Context, input, blob, name string, durability storage.Durability) error {
	keeper, ok := t.sink.(Keeper)
	if !ok {
		data, err := t.Blob(ctx, input, blob)
		if err != nil {
			return err
		}
		return t.sink.Put(ctx, name, data, durability)
	}
	node, b, err := t.find(ctx, input, blob)
	if err != nil {
		return err
	}
	return keeper.Keep(ctx, name, node, b, durability)
}

// SetMetrics records the task's metrics, once, before it ends.
func (t *Task) SetMetrics(metrics any) error {
	raw, err := json.Marshal(metrics)
	if err != nil {
		return Permanent(fmt.Errorf("metrics of %s: %w", t.Kind, err))
	}
	t.metrics = raw
	return nil
}

// Metrics returns the metrics that SetMetrics recorded.
func (t *Task) Metrics() json.RawMessage { return t.metrics }

// Progress reports the progress of the task. It is cheap and may be called often.
func (t *Task) Progress(p Progress) {
	if t.report != nil {
		t.report(p)
	}
}

func memoKey(node storage.Key, part string) string { return node.String() + "/" + part }

// Memoize returns a decoded value that tasks of one worker share. part distinguishes the values of
// one node; the node's key makes it unique.
func Memoize[T any](t *Task, node storage.Key, part string, load func() (T, int64, error)) (T, error) {
	if t.memo == nil {
		v, _, err := load()
		return v, err
	}
	v, err := t.memo.Get(memoKey(node, part), func() (any, int64, error) {
		v, size, err := load()
		return v, size, err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v.(T), nil
}
