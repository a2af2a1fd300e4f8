package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxInlineTotal limits the inline bytes of one commit, so that a commit stays a small record;
// further blobs become separate objects.
const maxInlineTotal = 64 << 10

// PutBlob stores one output of the node key and returns its description for the
// node's commit. Data of at most MaxInline bytes is not stored yet: the commit
// carries it. Storing a blob again is harmless.
func (a *Archive) PutBlob(ctx context.Context, key Key, name string, data []byte, durability Durability) (Blob, error) {
	b := Blob{Name: name, Digest: DigestOf(data), Size: int64(len(data))}
	if len(data) <= MaxInline {
		b.Inline = data
		return b, nil
	}
	object := blobName(key, b.Digest)
	if err := a.put(ctx, object, data, durability); err != nil {
		return Blob{}, a.fail(fmt.Sprintf("storing blob %q as", name), object, err)
	}
	b.Blocks = blockSums(data)
	return b, nil
}

// KeepBlob stores b, a blob of the node from, also as an output of the node key, and returns its
// description for that node's commit. The bytes are not copied. A durable blob is read once and
// compared with its checksums, because it may become the only copy. The error names the object of
// one of the two nodes and wraps ErrNotFound if b is gone, ErrCorrupt if it is damaged.
func (a *Archive) KeepBlob(ctx context.Context, key Key, name string, from Key, b Blob, durability Durability) (Blob, error) {
	kept := b
	kept.Name = name
	if b.IsInline() {
		return kept, b.checkInline(from)
	}
	object := blobName(from, b.Digest)
	err := a.store.Copy(ctx, object, blobName(key, b.Digest), durability)
	if err == nil && durability == Durable {
		object = blobName(key, b.Digest)
		err = a.compare(ctx, object, kept)
	}
	if err != nil {
		return Blob{}, a.fail(fmt.Sprintf("keeping blob %q from", b.Name), object, err)
	}
	return kept, nil
}

// compare reads an object block by block and compares it with the checksums of b.
func (a *Archive) compare(ctx context.Context, object string, b Blob) error {
	r, err := a.store.Get(ctx, object, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	return b.checkStream(r)
}

// ReadBlob returns a blob of the node key. It checks size and digest: a mismatch gives an
// error that wraps ErrCorrupt, a missing blob ErrNotFound. The caller MUST NOT write to the
// bytes, which b may share.
func (a *Archive) ReadBlob(ctx context.Context, key Key, b Blob) ([]byte, error) {
	if b.IsInline() {
		return b.Inline, b.checkInline(key)
	}
	return a.readChecked(ctx, "blob", blobName(key, b.Digest), b)
}

// readChecked returns the content of an object that holds a blob. label names the blob in errors.
func (a *Archive) readChecked(ctx context.Context, label, object string, b Blob) (data []byte, err error) {
	defer func() {
		if err != nil {
			data, err = nil, a.fail(fmt.Sprintf("reading %s %q from", label, b.Name), object, err)
		}
	}()
	r, err := a.store.Get(ctx, object, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if data, err = readExactly(r, b.Size); err != nil {
		return nil, err
	}
	return data, b.check(data)
}

// ReadOutput returns the named blob of a committed node. The error wraps ErrNotFound if
// there is no commit or the blob is gone, ErrCorrupt if either is damaged or the commit
// does not list the blob. The caller MUST NOT write to the bytes.
func (a *Archive) ReadOutput(ctx context.Context, key Key, name string) ([]byte, error) {
	c, err := a.Committed(ctx, key)
	if err != nil {
		return nil, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return nil, fmt.Errorf("%s %s has no blob %q: %w", c.Kind, key.Short(), name, ErrCorrupt)
	}
	return a.ReadBlob(ctx, key, b)
}

// ReadBlobRange returns length bytes of a blob from offset. It reads whole blocks and checks them;
// a mismatch gives an error that wraps ErrCorrupt, a missing blob ErrNotFound.
func (a *Archive) ReadBlobRange(ctx context.Context, key Key, b Blob, offset, length int64) ([]byte, error) {
	if offset < 0 || length < 0 || length > b.Size || offset > b.Size-length {
		return nil, fmt.Errorf("blob %q of node %s: no bytes %d to %d, it has %d", b.Name, key.Short(), offset, offset+length, b.Size)
	}
	if b.IsInline() {
		return b.Inline[offset : offset+length], b.checkInline(key)
	}
	if length == 0 {
		return nil, nil
	}
	object := blobName(key, b.Digest)
	data, err := b.ReadPart(offset, length, func(from, length int64) ([]byte, error) {
		r, err := a.store.Get(ctx, object, from, length)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return readExactly(r, length)
	})
	return data, a.fail(fmt.Sprintf("reading part of blob %q from", b.Name), object, err)
}

// readExactly reads size bytes and returns an error if there are more.
func readExactly(r io.Reader, size int64) ([]byte, error) {
	data := make([]byte, size)
	if n, err := io.ReadFull(r, data); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, n, size)
		}
		return nil, err
	}
	return data, noMore(r, size)
}

// noMore returns an error if there are bytes after the first size.
func noMore(r io.Reader, size int64) error {
	var more [1]byte
	if n, _ := io.ReadFull(r, more[:]); n > 0 {
		return fmt.Errorf("%w: more than the %d bytes that there should be", ErrCorrupt, size)
	}
	return nil
}

// check compares bytes with the blob's description in the commit.
func (b Blob) check(data []byte) error {
	if int64(len(data)) != b.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(data), b.Size)
	}
	if got := DigestOf(data); got != b.Digest {
		return fmt.Errorf("%w: digest %s, want %s", ErrCorrupt, got.Short(), b.Digest.Short())
	}
	return nil
}

func (b Blob) checkInline(key Key) error {
	if err := b.check(b.Inline); err != nil {
		return fmt.Errorf("blob %q in the commit of node %s: %w", b.Name, key.Short(), err)
	}
	return nil
}

// Missing lists the blobs of a commit whose objects are gone or have the wrong size, in the order
// of names; without names it checks all blobs. Inline blobs are never missing. A name that is not
// in the commit is an error: the node's kind is not the one that the caller expects.
func (a *Archive) Missing(ctx context.Context, c *Commit, names ...string) ([]string, error) {
	if len(names) == 0 {
		for _, b := range c.Blobs {
			names = append(names, b.Name)
		}
	}
	var missing []string
	for _, name := range names {
		b, ok := c.Blob(name)
		if !ok {
			return nil, fmt.Errorf("commit of %s %s has no blob %q", c.Kind, c.Key.Short(), name)
		}
		there, err := a.holds(ctx, c.Key, b)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// Available reports whether the named blobs of a commit, or all of them, can be read. Missing
// lists evicted blobs.
func (a *Archive) Available(ctx context.Context, c *Commit, names ...string) (bool, error) {
	missing, err := a.Missing(ctx, c, names...)
	return len(missing) == 0 && err == nil, err
}

// Damaged lists the blobs of a commit whose objects are gone or differ from their checksums. Unlike Missing
// it reads them; a damaged one twice, because bytes can be damaged in transit.
func (a *Archive) Damaged(ctx context.Context, c *Commit) ([]string, error) {
	var damaged []string
	for _, b := range c.Blobs {
		if b.IsInline() {
			continue // the checksum of the commit covers it
		}
		object := blobName(c.Key, b.Digest)
		err := a.compare(ctx, object, b)
		if errors.Is(err, ErrCorrupt) {
			err = a.compare(ctx, object, b)
		}
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNotFound):
			damaged = append(damaged, b.Name)
		case err != nil:
			return nil, a.fail("reading", object, err)
		}
	}
	return damaged, nil
}

func (a *Archive) holds(ctx context.Context, key Key, b Blob) (bool, error) {
	if b.IsInline() {
		return true, nil
	}
	object := blobName(key, b.Digest)
	info, err := a.store.Head(ctx, object)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, a.fail("looking for", object, err)
	}
	return info.Size == b.Size, nil
}

// DeleteBlobs evicts the named blobs of a commit, or all of them. The commit keeps their
// descriptions and its inline blobs. An object shared with an unnamed blob also stays. Only
// the leader deletes.
func (a *Archive) DeleteBlobs(ctx context.Context, c *Commit, names ...string) error {
	evicted := func(b Blob) bool { return len(names) == 0 || slices.Contains(names, b.Name) }
	kept := make(map[Digest]bool)
	for _, b := range c.Blobs {
		if !evicted(b) {
			kept[b.Digest] = true
		}
	}
	var objects []string
	for _, b := range c.Blobs {
		if evicted(b) && !b.IsInline() && !kept[b.Digest] {
			objects = append(objects, blobName(c.Key, b.Digest))
		}
	}
	return a.delete(ctx, objects)
}

// DeleteNode removes a node, given its record, the blobs first: an interrupted
// deletion leaves the record, so that it can be repeated. Garbage collection
// removes the blobs of other attempts under the key. Only the leader deletes.
func (a *Archive) DeleteNode(ctx context.Context, c *Commit) error {
	if err := a.DeleteBlobs(ctx, c); err != nil {
		return err
	}
	return a.delete(ctx, []string{commitName(c.Key)})
}

// DeleteTrace removes the remains of a node whose record cannot be read, the
// record first: otherwise the node would appear done while its blobs are missing
// without eviction. It lists the node's blobs. Only the leader deletes.
func (a *Archive) DeleteTrace(ctx context.Context, key Key) error {
	if err := a.delete(ctx, []string{commitName(key)}); err != nil {
		return err
	}
	return a.deleteBelow(ctx, blobDir(key)+"/")
}

func (a *Archive) delete(ctx context.Context, objects []string) error {
	if len(objects) == 0 {
		return nil
	}
	if err := a.store.Delete(ctx, objects...); err != nil {
		if len(objects) == 1 {
			return a.fail("deleting", objects[0], err)
		}
		return a.fail(fmt.Sprintf("deleting %d objects, the first", len(objects)), objects[0], err)
	}
	return nil
}
