package retention

import (
	"context"
	"errors"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// sweep returns the objects to delete, in batches: nodes, then logs and
// leftovers of records, then sources, each by itself.
func (c *Collector) sweep(ctx context.Context, inv *inventory, all *allRuns) ([][]storage.Object, *Result, error) {
	x, err := c.mark(ctx, inv, all)
	if err != nil {
		return nil, nil, err
	}
	s := sweeper{Result: c.newResult(), now: c.now(), age: c.OlderThan}
	s.Runs, s.Held = len(all.runs)+len(all.unreadable), x.held
	for _, key := range plan.SortedKeys(inv.nodes) {
		n := inv.nodes[key]
		drop, keep, err := c.split(ctx, n, key, x.need(key))
		if err != nil {
			return nil, nil, err
		}
		s.Kept.add(keep...)
		s.add(n.newest, drop...)
	}
	for _, o := range inv.others {
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

// split separates the objects of a node to delete from those that stay.
func (c *Collector) split(ctx context.Context, n *storedNode, key storage.Key, need need) (drop, keep []storage.Object, err error) {
	switch {
	case need == needNothing:
		return n.objects(), nil, nil
	case need == needAll || n.commit == nil || len(n.blobs) == 0:
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
	keep = append(keep, *n.commit)
	for _, o := range n.blobs {
		if need == needRows && o.Digest == rows.Digest {
			keep = append(keep, o)
		} else {
			drop = append(drop, o)
		}
	}
	return drop, keep, nil
}
