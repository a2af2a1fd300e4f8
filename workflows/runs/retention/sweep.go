package retention

import (
	"context"
	"errors"
	"slices"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/leadership"
)

// sweep returns the objects to delete, in batches: nodes, then logs and leftovers of records, then each
// source in its own batch.
func (c *Collector) sweep(ctx context.Context, x *marks, now time.Time) ([][]storage.Object, *Result, error) {
	s := sweeper{Result: c.newResult(), now: now, age: c.OlderThan}
	for _, key := range plan.SortedKeys(x.inv.nodes) {
		n, need := x.inv.nodes[key], x.need(key)
		drop, keep, err := c.split(ctx, n, key, need)
		if err != nil {
			return nil, nil, err
		}
		if len(drop) > 0 {
			x.swept[key] = need
		}
		s.Kept.add(keep...)
		s.add(n.newest, drop...)
	}
	for _, o := range x.inv.others {
		if x.needsOther(o) {
			s.Kept.add(o)
		} else {
			s.add(o.Modified, o)
		}
	}
	s.cut()
	return s.batches, s.Result, nil
}

// batchObjects is the number of objects deleted between two checks of the runs.
const batchObjects = 1000

// sweeper gathers objects that no run needs and that are old enough, in batches.
type sweeper struct {
	*Result
	now     time.Time
	age     time.Duration
	batch   []storage.Object
	batches [][]storage.Object
}

// add adds unneeded objects, if the newest is old enough.
func (s *sweeper) add(newest time.Time, objects ...storage.Object) {
	if len(objects) == 0 {
		return
	}
	source := objects[0].Kind == storage.SourceObject
	age := s.age
	if source {
		age = max(age, MinSourceAge)
		s.cut()
	}
	if s.now.Sub(newest) < age {
		s.Young.add(objects...)
		return
	}
	s.batch = append(s.batch, objects...)
	if source || len(s.batch) >= batchObjects {
		s.cut()
	}
}

// cut ends a batch.
func (s *sweeper) cut() {
	if len(s.batch) > 0 {
		s.batches = append(s.batches, s.batch)
		s.batch = nil
	}
}

// split separates the objects of a node to delete from those that stay. A node with a readable commit needs
// no partial state: a killed attempt has left it.
func (c *Collector) split(ctx context.Context, n *storedNode, key storage.Key, need need) (drop, keep []storage.Object, err error) {
	switch {
	case need == needNothing:
		return n.objects(), nil, nil
	case n.commit == nil, len(n.unfinished) == 0 && (need == needAll || len(n.blobs) == 0):
		return nil, n.objects(), nil
	}
	commit, err := c.Archive.Committed(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, n.objects(), nil // a run executes it again
	}
	if err != nil {
		return nil, nil, err
	}
	rows, _ := commit.Blob(tasks.SegmentBlob)
	drop, keep = slices.Clone(n.unfinished), append(keep, *n.commit)
	for _, o := range n.blobs {
		if need == needAll || need == needRows && o.Digest == rows.Digest {
			keep = append(keep, o)
		} else {
			drop = append(drop, o)
		}
	}
	return drop, keep, nil
}

// deletionsAtOnce is the number of nodes of a batch that Delete deletes concurrently.
const deletionsAtOnce = 8

// Delete carries out a batch of deletions, if the token is valid. It may be repeated after an error.
func Delete(ctx context.Context, archive *storage.Archive, token *leadership.Token, batch []Deletion) error {
	if len(batch) == 0 {
		return nil
	}
	if err := token.Check(ctx); err != nil {
		return err
	}
	return goroutines.Each(ctx, len(batch), deletionsAtOnce, func(ctx context.Context, i int) error { return batch[i].carryOut(ctx, archive) })
}

// carryOut removes blobs before the record that names them, so that an interrupted deletion can be repeated
// from the record.
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

// Purge deletes the evicted blobs of nodes if the token is valid. Blobs evicted because of damage still exist.
func Purge(ctx context.Context, archive *storage.Archive, token *leadership.Token, nodes []*plan.Stored) error {
	if err := token.Check(ctx); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := archive.DeleteBlobs(ctx, n.Commit, n.Evicted...); err != nil {
			return err
		}
	}
	return nil
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

// Read finds checkpoints that were kept only for a standing node that has now read them.
type Read struct {
	// LookUp asks storage for a node.
	LookUp func(context.Context, storage.Key) (plan.Stored, error)
	Chain  *Chain
	// Steps lists the steps of those checkpoints, ascending.
	Steps []int
}

// mayBeGone is the number of last steps that may be deleted before earlier ones: a training that is at the
// last step when it is read deletes that step with the next.
const mayBeGone = 1

// Find returns the nodes to delete, with the records of closed segments: all checkpoints, in order, or none
// if an earlier term has deleted them. Deletions are in order, so Find looks up only the last steps.
func (x Read) Find(ctx context.Context) ([]Retirement, error) {
	for i := range min(len(x.Steps), 1+mayBeGone) {
		step := x.Steps[len(x.Steps)-1-i]
		n, err := x.LookUp(ctx, x.Chain.Shape.Key(step))
		if err != nil {
			return nil, err
		}
		stray := n.Commit != nil && x.Chain.Closed(step) && !plan.Boundary(step)
		if stray || n.Available() && hasEvictable(n.Commit) {
			return x.all(), nil
		}
	}
	return nil, nil
}

func (x Read) all() []Retirement {
	var out []Retirement
	for _, step := range x.Steps {
		out = append(out, Retirement{What: WholeStep, Step: step})
	}
	return possible(x.Chain.Shape, out)
}
