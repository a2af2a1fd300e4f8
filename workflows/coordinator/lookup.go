package coordinator

import (
	"context"

	"coalmine/storage"
	"coalmine/workflows/availability"
)

// lookUpClean is availability.LookUp for the leader: a torn record is removed, so that the
// node can commit again.
func (t *term) lookUpClean(ctx context.Context, key storage.Key) (availability.Node, error) {
	f, err := availability.LookUp(ctx, t.archive, key)
	if err != nil || !f.Torn {
		return f, err
	}
	return availability.Node{}, t.removeTorn(ctx, key)
}

func (t *term) removeTorn(ctx context.Context, key storage.Key) error {
	if err := t.token.Check(ctx); err != nil {
		return err
	}
	_, err := t.archive.RemoveTorn(ctx, key)
	return err
}
