package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Commit makes a node done, once for all attempts: it stores the record under the node's key if
// there is none. All blobs that are not inline MUST be stored before (PutBlob). It returns the
// record in the store, and whether it belongs to this attempt. Another attempt's record is not an
// error; the caller compares the two with Commit.Differs, because a difference shows that the task
// is not deterministic.
//
// Commit may be called again with the same attempt after an error or an interruption. An error that
// wraps ErrCorrupt reports a torn record under the key; the leader removes it with RemoveTorn.
func (a *Archive) Commit(ctx context.Context, c *Commit) (stands *Commit, won bool, err error) {
	name := commitName(c.Key)
	ours, err := a.prepare(ctx, c)
	if err != nil {
		return nil, false, err
	}
	data, err := seal(commitFormat, ours)
	if err != nil {
		return nil, false, a.fail("committing", name, err)
	}
	found, err := a.create(ctx, name, data, func(found []byte) bool {
		var other Commit
		return unseal(commitFormat, found, &other) == nil && other.Attempt == c.Attempt
	})
	if err == nil {
		return ours, true, nil
	}
	if !errors.Is(err, ErrExists) || found == nil {
		return nil, false, a.fail("committing", name, err)
	}
	var other Commit
	if err := unseal(commitFormat, found, &other); err != nil {
		// The record may have been damaged in transit, and may even be ours.
		if err := a.readSealed(ctx, commitFormat, name, &other); err != nil {
			return nil, false, a.fail("committing", name, err)
		}
	}
	return &other, other.Attempt == c.Attempt, nil
}

// prepare checks a commit and returns it in its stored form: blobs ordered by
// name, and a limited number of inline bytes.
func (a *Archive) prepare(ctx context.Context, c *Commit) (*Commit, error) {
	if c.Key.IsZero() || c.Attempt == "" || c.Kind == "" {
		return nil, fmt.Errorf("commit of kind %q, key %s, attempt %q: all three must be set", c.Kind, c.Key.Short(), c.Attempt)
	}
	ours := *c
	ours.Blobs = slices.SortedFunc(slices.Values(c.Blobs), func(x, y Blob) int { return cmp.Compare(x.Name, y.Name) })
	inline := 0
	for i := range ours.Blobs {
		b := &ours.Blobs[i]
		if i > 0 && b.Name == ours.Blobs[i-1].Name {
			return nil, fmt.Errorf("commit of %s %s: two blobs are named %q", c.Kind, c.Key.Short(), b.Name)
		}
		if inline += len(b.Inline); inline > maxInlineTotal && len(b.Inline) > 0 {
			inline -= len(b.Inline)
			if err := a.moveOut(ctx, c.Key, b); err != nil {
				return nil, err
			}
		}
	}
	return &ours, nil
}

func (a *Archive) moveOut(ctx context.Context, key Key, b *Blob) error {
	object := blobName(key, b.Digest)
	if err := a.put(ctx, object, b.Inline, Durable); err != nil {
		return a.fail(fmt.Sprintf("storing blob %q as", b.Name), object, err)
	}
	b.Blocks, b.Inline = blockSums(b.Inline), nil
	return nil
}

// Committed returns the record of a node. The error wraps ErrNotFound if there
// is none, ErrCorrupt if it is torn.
func (a *Archive) Committed(ctx context.Context, key Key) (*Commit, error) {
	name := commitName(key)
	var c Commit
	if err := a.readSealed(ctx, commitFormat, name, &c); err != nil {
		return nil, a.fail("reading", name, err)
	}
	if c.Key != key {
		return nil, a.fail("reading", name, fmt.Errorf("%w: it is the commit of node %s", ErrCorrupt, c.Key.Short()))
	}
	return &c, nil
}

// HasCommit reports whether a node has a record, intact or torn, without reading it.
func (a *Archive) HasCommit(ctx context.Context, key Key) (bool, error) {
	there, err := a.exists(ctx, commitName(key))
	return there, a.fail("looking for", commitName(key), err)
}

// RemoveTorn removes the record of a node if it is torn, so that the node can be run again, and
// reports whether it did. It keeps an intact record. Only the leader calls it.
func (a *Archive) RemoveTorn(ctx context.Context, key Key) (removed bool, err error) {
	_, err = a.Committed(ctx, key)
	switch {
	case err == nil, errors.Is(err, ErrNotFound):
		return false, nil
	case !errors.Is(err, ErrCorrupt):
		return false, err
	}
	return true, a.delete(ctx, []string{commitName(key)})
}
