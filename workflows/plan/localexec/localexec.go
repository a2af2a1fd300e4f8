// Package localexec is the local executor: it runs the nodes of a plan one after another in this process, without a
// queue, workers or a coordinator. It is the baseline of performance measurements, and the reference for results in
// tests. For verification it reads the stored outputs of the plan and executes the other nodes.
package localexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Executor runs the nodes of a plan, each once, and keeps their outputs in memory. It implements
// tasks.Source over these outputs. It belongs to one goroutine.
type Executor struct {
	// Runner runs the tasks. Callers may set its keys, programs and writable directories.
	Runner *tasks.Runner
	// Begin, if not nil, is called as the execution of a node begins.
	Begin func(tasks.Spec)

	plan   *plan.Plan
	kinds  tasks.Registry
	stored *stored // nil without a store
	// read are the steps of chains that standing nodes read.
	read map[storage.Key]bool
}

// New returns an executor of a plan with the given sources.
func New(p *plan.Plan, kinds tasks.Registry, sources ...[]byte) *Executor {
	e := &Executor{plan: p, kinds: kinds, Runner: tasks.NewRunner(), read: make(map[storage.Key]bool)}
	e.Runner.Source = e
	for _, n := range p.Nodes {
		for _, need := range n.Needs {
			if need.Chain != nil {
				e.read[need.Key] = true
			}
		}
	}
	for _, s := range sources {
		e.Runner.Import(s)
	}
	return e
}

// Reach runs a node and its needs, unless they are available.
func (e *Executor) Reach(ctx context.Context, r plan.Ref) error {
	if available, err := e.available(ctx, r.Key); available || err != nil {
		return err
	}
	if r.Chain != nil {
		return e.advance(ctx, r.Chain, r.Step)
	}
	n := e.plan.Nodes[r.Key]
	return e.make(ctx, n.Needs, n.Spec)
}

// available reports whether a node has been run, or is stored.
func (e *Executor) available(ctx context.Context, key storage.Key) (bool, error) {
	if ran := e.Runner.Node(key) != nil; ran || e.stored == nil {
		return ran, nil
	}
	return e.stored.has(ctx, key)
}

// make runs a node after its needs. It also runs needs whose stored outputs turn out to be missing or damaged.
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
		if available, err := e.available(ctx, c.Key(from)); err != nil {
			return err
		} else if available {
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

// tidy forgets the parts of a step, and the step before it unless that is kept or read.
func (e *Executor) tidy(c *plan.Chain, step int) {
	for part := range c.Width {
		e.Runner.Forget(c.PartKey(step, part))
	}
	if previous := step - 1; previous > 0 && !slices.Contains(c.Keep, previous) && !e.read[c.Key(previous)] {
		e.Runner.Forget(c.Key(previous))
	}
}

func (e *Executor) run(ctx context.Context, spec tasks.Spec) error {
	kind, err := e.kinds.Find(spec)
	if err != nil {
		return err
	}
	if e.Begin != nil {
		e.Begin(spec)
	}
	if _, err := e.Runner.Run(ctx, kind, spec); err != nil {
		return fmt.Errorf("%s %s, step %d, part %d: %w", spec.Kind, spec.Key.Short(), spec.Step, spec.Part, err)
	}
	return nil
}

// source returns the source of a node's outputs: the runner if it has executed the node, or else the store.
func (e *Executor) source(key storage.Key) tasks.Source {
	if e.stored == nil || e.Runner.Node(key) != nil {
		return e.Runner
	}
	return e.stored
}

// Commit implements tasks.Source. The commit of a node that has run here has blobs without digests.
func (e *Executor) Commit(ctx context.Context, key storage.Key) (*storage.Commit, error) {
	return e.source(key).Commit(ctx, key)
}

func (e *Executor) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	return e.source(key).Blob(ctx, key, name)
}

func (e *Executor) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	return e.source(key).BlobRange(ctx, key, name, offset, length)
}

func (e *Executor) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	data, err := e.Runner.Imported(ctx, digest)
	if errors.Is(err, storage.ErrNotFound) && e.stored != nil {
		return e.stored.Imported(ctx, digest)
	}
	return data, err
}

// stored reads the stored outputs of the nodes from an archive.
type stored struct {
	archive *storage.Archive
	// lost holds the nodes that count as not stored: they are damaged, or must be executed although they
	// are committed.
	lost map[storage.Key]bool
	// commits holds the commits of nodes with all their blobs available, and nil for other nodes.
	commits map[storage.Key]*storage.Commit
	// whole holds the blobs whose digests have been verified. For blobs read in parts, the store verifies
	// only the length.
	whole map[storage.Digest]bool
}

// UseStored makes the executor read committed outputs and sources from an archive, unless they are evicted.
func (e *Executor) UseStored(archive *storage.Archive) {
	e.stored = &stored{archive, map[storage.Key]bool{}, map[storage.Key]*storage.Commit{}, map[storage.Digest]bool{}}
}

// Execute runs a node, even if it is stored, and returns its commit without provenance. It also runs the
// needs that are not stored.
func (e *Executor) Execute(ctx context.Context, r plan.Ref) (*storage.Commit, error) {
	if e.stored != nil {
		e.stored.lost[r.Key] = true
	}
	if err := e.Reach(ctx, r); err != nil {
		return nil, err
	}
	return e.Runner.Node(r.Key).Commit(), nil
}

func (s *stored) has(ctx context.Context, key storage.Key) (bool, error) {
	if s.lost[key] {
		return false, nil
	}
	if c, known := s.commits[key]; known {
		return c != nil, nil
	}
	c, err := s.archive.Committed(ctx, key)
	there := false
	if err == nil {
		there, err = s.archive.Available(ctx, c)
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		err = nil
	}
	if !there {
		c = nil
	}
	if err == nil {
		s.commits[key] = c
	}
	return there, err
}

func (s *stored) Commit(ctx context.Context, key storage.Key) (*storage.Commit, error) {
	if c := s.commits[key]; c != nil && !s.lost[key] {
		return c, nil
	}
	if there, err := s.has(ctx, key); err != nil {
		return nil, err
	} else if !there {
		return nil, &tasks.MissingError{Node: key, Err: storage.ErrNotFound}
	}
	return s.commits[key], nil
}

func (s *stored) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	b, err := s.find(ctx, key, name)
	if err != nil {
		return nil, err
	}
	data, err := s.archive.ReadBlob(ctx, key, b)
	return data, missing(key, name, err)
}

func (s *stored) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	b, err := s.find(ctx, key, name)
	if err != nil {
		return nil, err
	}
	if !s.whole[b.Digest] {
		if _, err := s.archive.ReadBlob(ctx, key, b); err != nil {
			return nil, missing(key, name, err)
		}
		s.whole[b.Digest] = true
	}
	data, err := s.archive.ReadBlobRange(ctx, key, b, offset, length)
	return slices.Clone(data), missing(key, name, err) // the caller may write to the range
}

func (s *stored) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return s.archive.OpenSource(ctx, digest)
}

func (s *stored) find(ctx context.Context, key storage.Key, name string) (storage.Blob, error) {
	c, err := s.Commit(ctx, key)
	if err != nil {
		return storage.Blob{}, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return b, fmt.Errorf("node %s (%s@%d) has no blob %q", key.Short(), c.Kind, c.KindVersion, name)
	}
	return b, nil
}

// missing turns the error of a missing or damaged blob into one that makes its node run.
func missing(key storage.Key, name string, err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return &tasks.MissingError{Node: key, Blob: name, Err: err}
	}
	return err
}
