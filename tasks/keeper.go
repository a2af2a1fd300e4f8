package tasks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"coalmine/storage"
)

// RunnerKeeper is a Resumer that keeps the state of one task for its next execution and drops
// outputs.
type RunnerKeeper struct {
	mu    sync.Mutex
	last  *Kept
	files map[storage.Digest][]byte
}

var _ Resumer = (*RunnerKeeper)(nil)

// Put implements Sink, and drops the blob.
func (*RunnerKeeper) Put(context.Context, string, []byte, storage.Durability) error { return nil }

// Kept implements Resumer.
func (k *RunnerKeeper) Kept(context.Context) (*Kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, nil
}

// KeptFile implements Resumer.
func (k *RunnerKeeper) KeptFile(_ context.Context, file storage.Blob) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	data, ok := k.files[file.Digest]
	if !ok {
		return nil, fmt.Errorf("file %q of an earlier execution: %w", file.Name, storage.ErrNotFound)
	}
	return data, nil
}

// KeepFile implements Resumer.
func (k *RunnerKeeper) KeepFile(_ context.Context, name string, data []byte, _ bool) (storage.Blob, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := storage.Blob{Name: name, Digest: storage.DigestOf(data), Size: int64(len(data))}
	if k.files == nil {
		k.files = map[storage.Digest][]byte{}
	}
	k.files[b.Digest] = data
	return b, nil
}

// SaveProgress implements Resumer.
func (k *RunnerKeeper) SaveProgress(_ context.Context, kept *Kept) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	copied := *kept
	k.last = &copied
	maps.DeleteFunc(k.files, func(d storage.Digest, _ []byte) bool {
		return !slices.ContainsFunc(kept.Files, func(b storage.Blob) bool { return b.Digest == d })
	})
	return nil
}
