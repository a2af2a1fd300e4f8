// Package localexec is the local executor: it runs the nodes of a plan one after
// another in this process, without queue, workers or coordinator. The machinery is
// measured against it, and tests compare results with its own. For verification it
// reads what a store has of the plan and executes the rest.
package localexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Executor runs the nodes of a plan, each once, and keeps their outputs in memory. It
// implements tasks.Source over them. It is for one goroutine.
type Executor struct {
	plan  *plan.Plan
	kinds tasks.Registry
	nodes map[storage.Key]*node
	memo  memo
	// sources by digest.
	sources map[storage.Digest][]byte
	keys    *secrets.Keyring
	stored  *stored // nil without a store
	begin   func(tasks.Spec)
}

type node struct {
	commit storage.Commit
	blobs  map[string][]byte
}

// New executes the nodes of a plan whose sources are given.
func New(p *plan.Plan, kinds tasks.Registry, sources ...[]byte) *Executor {
	e := &Executor{plan: p, kinds: kinds, nodes: map[storage.Key]*node{}, memo: memo{}, sources: map[storage.Digest][]byte{}}
	for _, s := range sources {
		e.sources[storage.DigestOf(s)] = s
	}
	return e
}

// OnBegin has the executor call do whenever it begins to execute a node.
func (e *Executor) OnBegin(do func(tasks.Spec)) { e.begin = do }

// UseKeys gives the executor the secret keys that its tasks need.
func (e *Executor) UseKeys(keys *secrets.Keyring) { e.keys = keys }

// Give adds the outputs of a node that is not run: others may read it as an
// input, and it need not be in the plan.
func (e *Executor) Give(key storage.Key, blobs map[string][]byte) {
	e.nodes[key] = &node{commit: storage.Commit{Key: key}, blobs: blobs}
}

// Reach runs a node and everything that it needs, as far as it has not been run.
func (e *Executor) Reach(ctx context.Context, r plan.Ref) error {
	if there, err := e.there(ctx, r.Key); there || err != nil {
		return err
	}
	if r.Chain != nil {
		return e.advance(ctx, r.Chain, r.Step)
	}
	n := e.plan.Nodes[r.Key]
	return e.make(ctx, n.Needs, n.Spec)
}

// there reports whether a node has been run, or is stored.
func (e *Executor) there(ctx context.Context, key storage.Key) (bool, error) {
	if e.nodes[key] != nil || e.stored == nil {
		return e.nodes[key] != nil, nil
	}
	return e.stored.has(ctx, key)
}

// make runs a node once all that it needs is there. Something stored that turns
// out to be gone or damaged is made too.
func (e *Executor) make(ctx context.Context, needs []plan.Ref, spec tasks.Spec) error {
	for {
		for _, need := range needs {
			if err := e.Reach(ctx, need); err != nil {
				return err
			}
		}
		err := e.run(ctx, spec)
		missing, ok := errors.AsType[*tasks.MissingError](err)
		if !ok || e.stored == nil || e.stored.lost[missing.Node] {
			return err
		}
		e.stored.lost[missing.Node] = true
	}
}

// advance runs a chain up to a step, from the last checkpoint before it.
func (e *Executor) advance(ctx context.Context, c *plan.Chain, to int) error {
	from := to
	for ; from > 0; from-- {
		if there, err := e.there(ctx, c.Key(from)); err != nil {
			return err
		} else if there {
			break
		}
	}
	for step := from + 1; step <= to; step++ {
		if err := e.step(ctx, c, step); err != nil {
			return err
		}
		e.tidy(c, step)
	}
	return nil
}

func (e *Executor) step(ctx context.Context, c *plan.Chain, step int) error {
	needs := append(c.StepNeeds(), c.At(step-1))
	for part := range c.Width {
		if err := e.make(ctx, needs, c.PartSpec(step, part)); err != nil {
			return err
		}
	}
	return e.make(ctx, needs, c.JoinSpec(step))
}

// tidy forgets the parts of a step, and the step before unless it is kept.
func (e *Executor) tidy(c *plan.Chain, step int) {
	for part := range c.Width {
		delete(e.nodes, c.PartKey(step, part))
	}
	if previous := step - 1; previous > 0 && !slices.Contains(c.Keep, previous) {
		delete(e.nodes, c.Key(previous))
		e.memo.forget(c.Key(previous))
	}
}

func (e *Executor) run(ctx context.Context, spec tasks.Spec) error {
	kind, ok := e.kinds[spec.Kind]
	if !ok {
		return fmt.Errorf("kind %q is unknown", spec.Kind)
	}
	if e.begin != nil {
		e.begin(spec)
	}
	n := &node{blobs: map[string][]byte{}}
	t := tasks.NewTask(spec, e, n, e.memo, nil).WithKeys(e.keys)
	if err := kind.Run(ctx, t); err != nil {
		return fmt.Errorf("%s %s, step %d, part %d: %w", spec.Kind, spec.Key.Short(), spec.Step, spec.Part, err)
	}
	n.commit = storage.Commit{Key: spec.Key, Kind: spec.Kind, KindVersion: spec.Version, Metrics: t.Metrics()}
	e.nodes[spec.Key] = n
	return nil
}

// Put implements tasks.Sink.
func (n *node) Put(_ context.Context, name string, data []byte, _ storage.Durability) error {
	n.blobs[name] = data
	return nil
}

// Commit implements tasks.Source. The commit has metrics, and no blobs.
func (e *Executor) Commit(ctx context.Context, key storage.Key) (*storage.Commit, error) {
	n := e.nodes[key]
	if n == nil && e.stored != nil {
		return e.stored.Commit(ctx, key)
	}
	if n == nil {
		return nil, &tasks.MissingError{Node: key, Err: storage.ErrNotFound}
	}
	return &n.commit, nil
}

// Blob implements tasks.Source.
func (e *Executor) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	n := e.nodes[key]
	if n == nil && e.stored != nil {
		return e.stored.Blob(ctx, key, name)
	}
	if n == nil {
		return nil, &tasks.MissingError{Node: key, Blob: name, Err: storage.ErrNotFound}
	}
	data, ok := n.blobs[name]
	if !ok {
		return nil, &tasks.MissingError{Node: key, Blob: name, Err: storage.ErrNotFound}
	}
	return data, nil
}

// BlobRange implements tasks.Source.
func (e *Executor) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	if e.nodes[key] == nil && e.stored != nil {
		return e.stored.BlobRange(ctx, key, name, offset, length)
	}
	data, err := e.Blob(ctx, key, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset+length > int64(len(data)) {
		return nil, fmt.Errorf("blob %q has %d bytes: no bytes %d to %d", name, len(data), offset, offset+length)
	}
	return data[offset : offset+length : offset+length], nil
}

// Imported implements tasks.Source.
func (e *Executor) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	data, ok := e.sources[digest]
	if !ok && e.stored != nil {
		return e.stored.archive.OpenSource(ctx, digest)
	}
	if !ok {
		return nil, fmt.Errorf("source %s: %w", digest.Short(), storage.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// memo keeps every decoded value.
type memo map[string]any

// Get implements tasks.Memo.
func (m memo) Get(key string, load func() (any, int64, error)) (any, error) {
	if v, ok := m[key]; ok {
		return v, nil
	}
	v, _, err := load()
	if err == nil {
		m[key] = v
	}
	return v, err
}

// forget drops what was decoded from a node.
func (m memo) forget(key storage.Key) {
	for name := range m {
		if strings.HasPrefix(name, key.String()) {
			delete(m, name)
		}
	}
}
