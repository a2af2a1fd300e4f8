// Package availability finds the available outputs of a plan in storage: of a node
// ([LookUp]), and of a training of any length ([Surveyor]). It changes nothing and
// lists nothing.
//
// A node is available if it is committed and its blobs can be read. An unavailable
// node is only work (invariant 6): it is recomputed from the nearest available
// outputs.
package availability

import (
	"context"
	"errors"
	"strings"

	"coalmine/internal/goroutines"

	"coalmine/storage"
)

// Node is the state of a node in storage.
type Node struct {
	// Commit is the node's record, nil if there is none, or if it is torn.
	Commit *storage.Commit
	// Torn reports an invalid record: its writer was interrupted.
	Torn bool
	// Evicted names the blobs that are gone.
	Evicted []string
}

// Available reports whether the node is committed with all its blobs.
func (n Node) Available() bool { return n.Commit != nil && len(n.Evicted) == 0 }

// Why returns the reason why the node is or isn't cached, for display.
func (n Node) Why() string {
	switch {
	case n.Torn:
		return "its commit is torn"
	case n.Commit == nil:
		return "no cached result"
	case len(n.Evicted) > 0:
		return "evicted: " + strings.Join(n.Evicted, ", ")
	}
	return "cached"
}

// LookUp looks up a node in storage. It is not an error if the node is missing, torn or
// evicted.
func LookUp(ctx context.Context, archive *storage.Archive, key storage.Key) (Node, error) {
	c, err := archive.Committed(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return Node{}, nil
	case errors.Is(err, storage.ErrCorrupt):
		return Node{Torn: true}, nil
	case err != nil:
		return Node{}, err
	}
	evicted, err := archive.Missing(ctx, c)
	return Node{Commit: c, Evicted: evicted}, err
}

// lookUpsAtOnce is the number of concurrent lookups of LookUpAll.
const lookUpsAtOnce = 16

// LookUpAll looks up nodes in storage, and returns their states in the order of
// the keys.
func LookUpAll(ctx context.Context, archive *storage.Archive, keys []storage.Key) ([]Node, error) {
	return lookUpAll(ctx, keys, func(ctx context.Context, key storage.Key) (Node, error) { return LookUp(ctx, archive, key) })
}

func lookUpAll(ctx context.Context, keys []storage.Key, lookUp func(context.Context, storage.Key) (Node, error)) ([]Node, error) {
	found := make([]Node, len(keys))
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(lookUpsAtOnce)
	for i, key := range keys {
		group.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			found[i], err = lookUp(ctx, key)
			return err
		})
	}
	return found, group.Wait()
}
