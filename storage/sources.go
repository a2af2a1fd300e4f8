package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// PutSource imports a file and returns its digest and its size in bytes. The data streams: it is
// read once to compute the digest and, unless the source already exists, twice more, to store it
// and to check that it did not change. If it did, PutSource returns an error and stores nothing.
func (a *Archive) PutSource(ctx context.Context, body io.ReadSeeker) (Digest, int64, error) {
	digest, size, err := digestAll(body)
	if err != nil {
		return Digest{}, 0, fmt.Errorf("reading the source: %w", err)
	}
	name := sourceName(digest)
	if info, err := a.store.Head(ctx, name); err == nil && info.Size == size {
		return digest, size, nil
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return Digest{}, 0, a.fail("looking for", name, err)
	}
	if err := a.store.Put(ctx, name, body, Durable); err != nil {
		return Digest{}, 0, a.fail("importing the source as", name, err)
	}
	again, _, err := digestAll(body)
	if err == nil && again != digest {
		err = errors.New("it changed while it was imported; import it again when no process writes to it")
	}
	if err != nil {
		return Digest{}, 0, errors.Join(fmt.Errorf("reading the source: %w", err), a.delete(ctx, []string{name}))
	}
	return digest, size, nil
}

func digestAll(body io.ReadSeeker) (Digest, int64, error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return Digest{}, 0, err
	}
	h := sha256.New()
	size, err := io.Copy(h, body)
	return Digest(h.Sum(nil)), size, err
}

// OpenSource opens an imported source as a stream. The digest is known only at the end: if the
// bytes differ from the imported ones, the last read returns an error that wraps ErrCorrupt instead
// of io.EOF. A reader that stops early has checked nothing.
func (a *Archive) OpenSource(ctx context.Context, digest Digest) (io.ReadCloser, error) {
	name := sourceName(digest)
	r, err := a.store.Get(ctx, name, 0, -1)
	if err != nil {
		err = a.fail("opening", name, err)
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("an imported source is gone; submit the run again from the original file: %w", err)
		}
		return nil, err
	}
	return &checkedReader{ReadCloser: r, hash: sha256.New(), want: digest}, nil
}

// checkedReader compares the digest of a stream when it ends.
type checkedReader struct {
	io.ReadCloser
	hash hash.Hash
	want Digest
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.hash.Write(p[:n])
	if err == io.EOF {
		if got := Digest(r.hash.Sum(nil)); got != r.want {
			return n, fmt.Errorf("source %s: %w: its content has digest %s; delete the object %s from the store and submit the experiment again, which uploads it",
				r.want.Short(), ErrCorrupt, got.Short(), sourceName(r.want))
		}
	}
	return n, err
}

// HasSource reports whether a source is imported.
func (a *Archive) HasSource(ctx context.Context, digest Digest) (bool, error) {
	there, err := a.exists(ctx, sourceName(digest))
	return there, a.fail("looking for", sourceName(digest), err)
}
