package retention

import (
	"context"
	"slices"
	"time"

	"coalmine/storage"
)

// inventory lists the collectable objects of a store. It grows with the store:
// about 200 bytes per object.
type inventory struct {
	nodes map[storage.Key]*storedNode
	// others are logs, records and sources.
	others []storage.Object
}

// storedNode holds the objects of a node in the store. It has one age: the
// youngest of its objects may belong to an attempt that is about to commit.
type storedNode struct {
	commit *storage.Object
	blobs  []storage.Object
	// unfinished has the partial state of a running task.
	unfinished []storage.Object
	newest     time.Time
}

func (n *storedNode) objects() []storage.Object {
	var all []storage.Object
	if n.commit != nil {
		all = append(all, *n.commit) // first, so that a done node never lacks blobs
	}
	return slices.Concat(all, n.blobs, n.unfinished)
}

// collectedKinds are the kinds of objects in the order in which they are listed.
// Blobs come before commits, so that a node committed in between looks younger
// than it is, not older.
var collectedKinds = []storage.ObjectKind{
	storage.BlobObject, storage.UnfinishedObject, storage.CommitObject, storage.LogObject, storage.RecordObject, storage.SourceObject,
}

func (c *Collector) takeInventory(ctx context.Context) (*inventory, error) {
	inv := &inventory{nodes: make(map[storage.Key]*storedNode)}
	for _, kind := range collectedKinds {
		for o, err := range c.Archive.Objects(ctx, kind) {
			if err != nil {
				return nil, err
			}
			inv.add(o)
		}
	}
	return inv, nil
}

func (inv *inventory) add(o storage.Object) {
	if o.Kind != storage.BlobObject && o.Kind != storage.CommitObject && o.Kind != storage.UnfinishedObject {
		inv.others = append(inv.others, o)
		return
	}
	n := inv.nodes[o.Key]
	if n == nil {
		n = &storedNode{}
		inv.nodes[o.Key] = n
	}
	if o.Modified.After(n.newest) {
		n.newest = o.Modified
	}
	switch o.Kind { //nolint:exhaustive // other kinds belong to no node
	case storage.CommitObject:
		n.commit = &o
	case storage.UnfinishedObject:
		n.unfinished = append(n.unfinished, o)
	default:
		n.blobs = append(n.blobs, o)
	}
}

// forget removes deleted objects.
func (inv *inventory) forget(objects []storage.Object) {
	gone := make(map[storage.Object]bool, len(objects))
	for _, o := range objects {
		gone[o] = true
		n := inv.nodes[o.Key]
		switch {
		case n == nil:
		case o.Kind == storage.CommitObject:
			n.commit = nil
		case o.Kind == storage.BlobObject:
			n.blobs = slices.DeleteFunc(n.blobs, func(b storage.Object) bool { return b == o })
		case o.Kind == storage.UnfinishedObject:
			n.unfinished = slices.DeleteFunc(n.unfinished, func(b storage.Object) bool { return b == o })
		}
	}
	inv.others = slices.DeleteFunc(inv.others, func(o storage.Object) bool { return gone[o] })
}
