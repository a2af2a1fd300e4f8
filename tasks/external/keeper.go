package external

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
)

// keeper keeps what a trial has got so far, in memory. It implements tasks.Resumer.
type keeper struct {
	files map[storage.Digest][]byte
	last  *tasks.Kept
}

var _ tasks.Resumer = (*keeper)(nil)

func newKeeper() *keeper { return &keeper{files: map[storage.Digest][]byte{}} }

// Put implements tasks.Sink: of a trial nothing is stored.
func (k *keeper) Put(context.Context, string, []byte, storage.Durability) error { return nil }

// Kept implements tasks.Resumer.
func (k *keeper) Kept(context.Context) (*tasks.Kept, error) { return k.last, nil }

// KeptFile implements tasks.Resumer.
func (k *keeper) KeptFile(_ context.Context, file storage.Blob) ([]byte, error) {
	data, there := k.files[file.Digest]
	if !there {
		return nil, fmt.Errorf("file %q: %w", file.Name, storage.ErrNotFound)
	}
	return data, nil
}

// KeepFile implements tasks.Resumer.
func (k *keeper) KeepFile(_ context.Context, name string, data []byte, _ bool) (storage.Blob, error) {
	b := storage.Blob{Name: name, Digest: storage.DigestOf(data), Size: int64(len(data))}
	k.files[b.Digest] = data
	return b, nil
}

// KeepSoFar implements tasks.Resumer.
func (k *keeper) KeepSoFar(_ context.Context, kept *tasks.Kept) error {
	copied := *kept
	k.last = &copied
	return nil
}
