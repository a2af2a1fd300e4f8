package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/storage"
)

// Resumer is a Sink that keeps the partial state of an execution. It is for kinds that run external
// programs, which cannot be divided and may give different bytes in each execution.
type Resumer interface {
	Sink
	// Kept returns the last state kept by an earlier execution of the same node, or nil.
	Kept(ctx context.Context) (*Kept, error)
	// KeptFile returns a file of Kept. The error wraps storage.ErrNotFound or storage.ErrCorrupt if
	// the file is lost.
	KeptFile(ctx context.Context, file storage.Blob) ([]byte, error)
	// KeepFile stores a file for a later Kept. A file that the next SaveProgress does not name is
	// deleted. With progress, a new file counts as progress.
	KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error)
	// SaveProgress replaces the kept state.
	SaveProgress(ctx context.Context, k *Kept) error
}

// Kept is the partial state of an execution.
type Kept struct {
	// Files are in the order of names.
	Files []storage.Blob
	// State is the kind's own state, as JSON.
	State json.RawMessage
}

// Kept returns the last state kept by an earlier execution of the task; nil if there is none, or
// the sink keeps none.
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

// KeepFile stores a file for SaveProgress, if the sink is a Resumer.
func (t *Task) KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error) {
	if r, ok := t.sink.(Resumer); ok {
		return r.KeepFile(ctx, name, data, progress)
	}
	return storage.Blob{Name: name}, nil
}

// SaveProgress replaces the kept state, from which a later execution continues, if the sink
// is a Resumer.
func (t *Task) SaveProgress(ctx context.Context, k *Kept) error {
	if r, ok := t.sink.(Resumer); ok {
		return r.SaveProgress(ctx, k)
	}
	return nil
}

// DeclareNondeterministic declares that another execution of the task may give other bytes. The first commit then
// counts.
func (t *Task) DeclareNondeterministic() { t.differs = true }

// Differs reports whether DeclareNondeterministic was called.
func (t *Task) Differs() bool { return t.differs }
