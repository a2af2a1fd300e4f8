package retention

import (
	"context"
	"errors"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/runs/leadership"
)

// deletionsAtOnce is the number of nodes of a batch deleted concurrently.
const deletionsAtOnce = 8

// Delete carries out a batch of deletions, if the token is valid. It may be
// repeated after an error.
func Delete(ctx context.Context, archive *storage.Archive, token *leadership.Token, batch []Deletion) error {
	if len(batch) == 0 {
		return nil
	}
	if err := token.Check(ctx); err != nil {
		return err
	}
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(deletionsAtOnce)
	for _, d := range batch {
		group.Go(func() error { return d.carryOut(ctx, archive) })
	}
	return group.Wait()
}

// carryOut removes blobs before the record that names them, so that an
// interrupted deletion can be repeated from the record.
func (d *Deletion) carryOut(ctx context.Context, archive *storage.Archive) (err error) {
	c := &storage.Commit{Key: d.Key, Blobs: d.Objects}
	if d.Objects == nil {
		c, err = archive.Committed(ctx, d.Key)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case errors.Is(err, storage.ErrCorrupt) && d.Whole:
		return archive.DeleteTrace(ctx, d.Key)
	case errors.Is(err, storage.ErrCorrupt):
		return nil
	case err != nil:
		return err
	case d.Whole:
		return archive.DeleteNode(ctx, c)
	}
	return evict(ctx, archive, c)
}

// evict deletes the blobs of a checkpoint. The metric rows of a segment stay with
// the record of its boundary.
func evict(ctx context.Context, archive *storage.Archive, c *storage.Commit) error {
	var names []string
	for _, b := range c.Blobs {
		if evictable(b) {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return nil // no names would mean all
	}
	return archive.DeleteBlobs(ctx, c, names...)
}

// evictable reports whether a blob of a checkpoint is a separate object that may be deleted.
func evictable(b storage.Blob) bool { return !b.IsInline() && b.Name != tasks.SegmentBlob }
