package coordinator

import (
	"context"
	"errors"
	"strings"

	"coalmine/storage"
)

// found is what storage holds of a node.
type found struct {
	// commit is the node's record, nil if there is none (or it is torn).
	commit *storage.Commit
	torn   bool
	// evicted names the blobs that are gone.
	evicted []string
}

// available reports whether the node can be used as it is.
func (f found) available() bool { return f.commit != nil && len(f.evicted) == 0 }

// why says for people why the node is or isn't cached.
func (f found) why() string {
	switch {
	case f.torn:
		return "its commit is torn"
	case f.commit == nil:
		return "not committed"
	case len(f.evicted) > 0:
		return "evicted: " + strings.Join(f.evicted, ", ")
	}
	return "cached"
}

// lookUp asks storage for a node.
func lookUp(ctx context.Context, archive *storage.Archive, key storage.Key) (found, error) {
	c, err := archive.Committed(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return found{}, nil
	case errors.Is(err, storage.ErrCorrupt):
		return found{torn: true}, nil
	case err != nil:
		return found{}, err
	}
	evicted, err := archive.Missing(ctx, c)
	return found{commit: c, evicted: evicted}, err
}

// lookUpClean is lookUp for the leader: a torn record is removed, so that the
// node can commit again.
func (t *term) lookUpClean(ctx context.Context, key storage.Key) (found, error) {
	f, err := lookUp(ctx, t.archive, key)
	if err != nil || !f.torn {
		return f, err
	}
	return found{}, t.removeTorn(ctx, key)
}

func (t *term) removeTorn(ctx context.Context, key storage.Key) error {
	if err := t.token.Check(ctx); err != nil {
		return err
	}
	_, err := t.archive.RemoveTorn(ctx, key)
	return err
}
