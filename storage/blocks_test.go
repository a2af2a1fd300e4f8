package storage_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// sized returns n bytes that vary with the position.
func sized(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*31 + i>>8*17 + i>>16)
	}
	return data
}

func TestBlobRangesAreReadAndChecked(t *testing.T) {
	t.Parallel()
	whole := sized(300 << 10)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(storage.MaxInline+1, len(whole)).Draw(t, "size")
		offset := rapid.IntRange(0, size).Draw(t, "offset")
		length := rapid.IntRange(0, min(size-offset, 200<<10)).Draw(t, "length")
		store := storagetest.WithFaults(storagetest.NewMemory())
		a, data := storage.NewArchive(store), whole[:size]
		b := must.Get(a.PutBlob(t.Context(), key(1), "b", data, storage.Recomputable))(t)
		part, err := a.ReadBlobRange(t.Context(), key(1), b, int64(offset), int64(length))
		if err != nil || !bytes.Equal(part, data[offset:offset+length]) {
			t.Fatalf("%d bytes, %v", len(part), err)
		}
		store.Add(&storagetest.Fault{Op: storagetest.Get, Flip: true})
		_, err = a.ReadBlobRange(t.Context(), key(1), b, int64(offset), int64(length))
		if length > 0 && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("a damaged part: %v, want an error that wraps %q", err, storage.ErrCorrupt)
		}
	})
}

func TestLargeBlobsHaveFewLargeBlocks(t *testing.T) {
	t.Parallel()
	a, data := faulty(), sized(33<<20)
	b := must.Get(a.PutBlob(t.Context(), key(1), "b", data, storage.Recomputable))(t)
	if len(b.Blocks) > 4*512 {
		t.Errorf("%d bytes of checksums", len(b.Blocks))
	}
	const offset = 20<<20 + 5
	if part, err := a.ReadBlobRange(t.Context(), key(1), b, offset, 1<<20); err != nil || !bytes.Equal(part, data[offset:][:1<<20]) {
		t.Errorf("%d bytes, %v", len(part), err)
	}
}

func TestBlobRangesWithoutChecksumsAreChecked(t *testing.T) {
	t.Parallel()
	store := storagetest.WithFaults(storagetest.NewMemory())
	a, data := storage.NewArchive(store), sized(200<<10)
	b := must.Get(a.PutBlob(t.Context(), key(1), "b", data, storage.Recomputable))(t)
	b.Blocks = nil // as in commits from before there were any
	if part, err := a.ReadBlobRange(t.Context(), key(1), b, 70_000, 10); err != nil || !bytes.Equal(part, data[70_000:70_010]) {
		t.Errorf("%x, %v", part, err)
	}
	store.Add(&storagetest.Fault{Op: storagetest.Get, Flip: true, Nth: 1})
	if _, err := a.ReadBlobRange(t.Context(), key(1), b, 70_000, 10); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a damaged blob without checksums: %v", err)
	}
	b.Blocks = make([]byte, 4)
	if _, err := a.ReadBlobRange(t.Context(), key(1), b, 70_000, 10); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("too few checksums: %v", err)
	}
}
