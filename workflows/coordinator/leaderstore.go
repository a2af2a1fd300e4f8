package coordinator

import (
	"context"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/availability"
	"coalmine/workflows/runs/leadership"
)

// leaderStore has the operations on storage that are reserved to the leader. Each
// deletion checks the fencing token first.
type leaderStore struct {
	archive *storage.Archive
	token   *leadership.Token
}

// lookUp is availability.LookUp for the leader: a torn record is removed, so that the
// node can commit again.
func (s *leaderStore) lookUp(ctx context.Context, key storage.Key) (availability.Node, error) {
	n, err := availability.LookUp(ctx, s.archive, key)
	if err != nil || !n.Torn {
		return n, err
	}
	if err := s.token.Check(ctx); err != nil {
		return availability.Node{}, err
	}
	_, err = s.archive.RemoveTorn(ctx, key)
	return availability.Node{}, err
}

// purge deletes the blobs of a node, so that it is run again.
func (s *leaderStore) purge(ctx context.Context, key storage.Key) error {
	n, err := s.lookUp(ctx, key)
	if err != nil || n.Commit == nil {
		return err
	}
	if err := s.token.Check(ctx); err != nil {
		return err
	}
	return s.archive.DeleteBlobs(ctx, n.Commit)
}

// checkEpoch ends the term if another coordinator has begun to lead, even if there is nothing to
// delete.
func (t *term) checkEpoch() {
	t.persist(reading, "looking for another leader", always, func(ctx context.Context) (func(), error) {
		return nil, t.store.token.Check(ctx)
	})
}

// keepPlan records the plan of a run: see package planned.
func (s *leaderStore) keepPlan(ctx context.Context, run string, w *plan.RecordWriter) error {
	record, err := w.Record()
	if err != nil {
		return err
	}
	if err := s.token.Check(ctx); err != nil {
		return err
	}
	return record.Keep(ctx, s.archive, run)
}
