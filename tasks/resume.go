package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/storage"
)

// Resumer is a Sink that keeps what an execution has got so far. It is for kinds that are no
// functions of ours: whose work nobody can divide, and which may not give the same bytes again.
type Resumer interface {
	Sink
	// Kept returns what an earlier execution of the same node has kept last, nil for nothing.
	Kept(ctx context.Context) (*Kept, error)
	// KeptFile returns a file of Kept. The error wraps storage.ErrNotFound or storage.ErrCorrupt
	// where it is no longer there.
	KeptFile(ctx context.Context, file storage.Blob) ([]byte, error)
	// KeepFile stores a file for a later Kept. A file that the next KeepSoFar does not name is
	// deleted. progress says that a file that was not kept before counts as progress.
	KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error)
	// KeepSoFar replaces what is kept.
	KeepSoFar(ctx context.Context, k *Kept) error
}

// Kept is what an execution has got so far.
type Kept struct {
	// Files by their names, in order.
	Files []storage.Blob
	// State is what else the kind needs, as JSON.
	State json.RawMessage
}

// Kept returns what an earlier execution of the task has kept last; nil for nothing, also where
// nothing can be kept.
func (t *Task) Kept(ctx context.Context) (*Kept, error) {
	if r, ok := t.sink.(Resumer); ok {
		return r.Kept(ctx)
	}
	return nil, nil
}

// KeptFile returns a file of Kept.
func (t *Task) KeptFile(ctx context.Context, file storage.Blob) ([]byte, error) {
	if r, ok := t.sink.(Resumer); ok {
		return r.KeptFile(ctx, file)
	}
	return nil, fmt.Errorf("file %q of an earlier execution: %w", file.Name, storage.ErrNotFound)
}

// KeepFile stores a file for KeepSoFar, where that can be.
func (t *Task) KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error) {
	if r, ok := t.sink.(Resumer); ok {
		return r.KeepFile(ctx, name, data, progress)
	}
	return storage.Blob{Name: name}, nil
}

// KeepSoFar replaces what is kept for an execution that goes on from here, where that can be.
func (t *Task) KeepSoFar(ctx context.Context, k *Kept) error {
	if r, ok := t.sink.(Resumer); ok {
		return r.KeepSoFar(ctx, k)
	}
	return nil
}

// MayDiffer says that another execution of the task may give other bytes, which is then no
// fault: the first that is committed counts.
func (t *Task) MayDiffer() { t.differs = true }

// Differs reports whether MayDiffer was called.
func (t *Task) Differs() bool { return t.differs }
