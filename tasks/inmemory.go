// This file, keeper.go and memo.go run tasks without a store, a queue or a worker. A Runner keeps the outputs of
// its tasks as inputs for later tasks:
//
//	r := tasks.NewRunner()
//	source := r.Import(data)
//	corpus, err := r.Run(ctx, datasets.Import, spec)
//	corpus.Blobs[datasets.CorpusBlob]
//
// It executes plans in one process (workflows/plan/localexec), benchmarks and tests of kinds
// (tasks/taskstest).

package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"coalmine/internal/goroutines"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/tasks/clientprograms"
)

// Runner runs tasks. It is the Source of its tasks, and safe for concurrent use.
// Its exported fields must be set before the first run.
type Runner struct {
	// Source is the source of the tasks: the runner itself by default; another source may fall back
	// on the runner.
	Source Source
	// Keys are the secret keys that tasks may need; nil is none.
	Keys *secrets.Keyring
	// Clients runs the programs that train clients; nil runs none.
	Clients clientprograms.Runner
	// Writable lists directories that commands may write to in addition to their own.
	Writable []string
	// Cores are the cores that a task may borrow in addition to its own; nil means none.
	Cores *goroutines.Cores
	// Report, if set, receives the progress of tasks.
	Report func(Progress)

	mu      sync.Mutex
	nodes   map[storage.Key]*RunnerNode
	sources map[storage.Digest][]byte
	kept    map[storage.Key]*RunnerKeeper // state of failed tasks
	memo    memo
}

// RunnerNode is a node that has run or was given.
type RunnerNode struct {
	Spec
	// Blobs are the outputs by name.
	Blobs map[string][]byte
	// Metrics are the recorded metrics of the task, or nil.
	Metrics json.RawMessage
	// Differs reports whether another execution may give other bytes.
	Differs bool
}

func NewRunner() *Runner {
	r := &Runner{nodes: map[storage.Key]*RunnerNode{}, sources: map[storage.Digest][]byte{}, kept: map[storage.Key]*RunnerKeeper{}, memo: newMemo()}
	r.Source = r
	return r
}

// Import adds a source and returns its digest.
func (r *Runner) Import(data []byte) storage.Digest {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := storage.DigestOf(data)
	r.sources[d] = data
	return d
}

// Give adds a node with its outputs, without running it.
func (r *Runner) Give(n *RunnerNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[n.Key] = n
	delete(r.kept, n.Key)
}

// Run executes a spec of a kind, and replaces an earlier outcome of the spec.
func (r *Runner) Run(ctx context.Context, kind Kind, spec Spec) (*RunnerNode, error) {
	n := &RunnerNode{Spec: spec, Blobs: map[string][]byte{}}
	task := r.Task(spec, sink{r.keeper(spec.Key), n})
	if err := kind.Run(ctx, task); err != nil {
		return nil, err
	}
	n.Metrics, n.Differs = task.Metrics(), task.Differs()
	r.Give(n)
	return n, nil
}

// Task returns an execution of a spec with the inputs as in Run, writing to another sink.
func (r *Runner) Task(spec Spec, into Sink) *Task {
	return NewTask(spec, r.Source, into, &r.memo, r.Report).WithKeys(r.Keys).WithClients(r.Clients).WithWritable(r.Writable).WithCores(r.Cores)
}

// Share makes Memoize return a decoded value for a node, so that tasks need not decode its outputs.
func (r *Runner) Share(node storage.Key, part string, decoded any) {
	_, _ = r.memo.Get(memoKey(node, part), func() (any, int64, error) { return decoded, 0, nil }) // never fails
}

// Node returns the kept outputs of a node, or nil.
func (r *Runner) Node(key storage.Key) *RunnerNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[key]
}

// Forget drops a node and the values decoded from it.
func (r *Runner) Forget(key storage.Key) {
	r.mu.Lock()
	delete(r.nodes, key)
	r.mu.Unlock()
	r.memo.forget(key)
}

// Commit implements Source. The record has blobs without digests, which no task reads.
func (r *Runner) Commit(_ context.Context, key storage.Key) (*storage.Commit, error) {
	n := r.Node(key)
	if n == nil {
		return nil, &MissingError{Node: key, Err: storage.ErrNotFound}
	}
	return n.record(), nil
}

// Blob implements Source.
func (r *Runner) Blob(_ context.Context, key storage.Key, name string) ([]byte, error) {
	if n := r.Node(key); n != nil {
		if data, ok := n.Blobs[name]; ok {
			return data, nil
		}
	}
	return nil, &MissingError{Node: key, Blob: name, Err: storage.ErrNotFound}
}

// BlobRange implements Source.
func (r *Runner) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	data, err := r.Blob(ctx, key, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset+length > int64(len(data)) {
		return nil, fmt.Errorf("blob %q has %d bytes: no bytes %d to %d", name, len(data), offset, offset+length)
	}
	return data[offset : offset+length : offset+length], nil
}

// Imported implements Source.
func (r *Runner) Imported(_ context.Context, digest storage.Digest) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, ok := r.sources[digest]
	if !ok {
		return nil, fmt.Errorf("source %s: %w", digest.Short(), storage.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (n *RunnerNode) record() *storage.Commit {
	c := &storage.Commit{Key: n.Key, Kind: n.Kind, KindVersion: n.Version, Metrics: n.Metrics}
	for _, name := range n.Names() {
		c.Blobs = append(c.Blobs, storage.Blob{Name: name, Size: int64(len(n.Blobs[name]))})
	}
	return c
}

// Commit returns the record that a worker would make of the node, without provenance.
func (n *RunnerNode) Commit() *storage.Commit {
	c := n.record()
	for i := range c.Blobs {
		c.Blobs[i].Digest = storage.DigestOf(n.Blobs[c.Blobs[i].Name])
	}
	return c
}

// Names lists the blobs, sorted.
func (n *RunnerNode) Names() []string { return slices.Sorted(maps.Keys(n.Blobs)) }

// keeper returns the keeper of a task's partial state.
func (r *Runner) keeper(key storage.Key) *RunnerKeeper {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[key] == nil {
		r.kept[key] = new(RunnerKeeper)
	}
	return r.kept[key]
}

// sink collects the blobs of one task.
type sink struct {
	*RunnerKeeper
	node *RunnerNode
}

func (s sink) Put(_ context.Context, name string, data []byte, _ storage.Durability) error {
	if _, twice := s.node.Blobs[name]; twice {
		return fmt.Errorf("blob %q written twice", name)
	}
	s.node.Blobs[name] = data
	return nil
}

// Runner returns a runner for tasks within this one, which also reads nodes from the sources of
// this task.
func (t *Task) Runner() *Runner {
	r := NewRunner()
	r.Source, r.Clients = within{r, t.source}, t.clients
	return r
}

// within falls back on the sources of another task.
type within struct {
	*Runner
	outer Source
}

func (w within) of(key storage.Key) Source {
	if w.Node(key) != nil {
		return w.Runner
	}
	return w.outer
}

func (w within) Commit(ctx context.Context, key storage.Key) (*storage.Commit, error) {
	return w.of(key).Commit(ctx, key)
}

func (w within) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	return w.of(key).Blob(ctx, key, name)
}

func (w within) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	return w.of(key).BlobRange(ctx, key, name, offset, length)
}

func (w within) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return w.outer.Imported(ctx, digest)
}
