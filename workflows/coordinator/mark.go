package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/retention"
	"coalmine/workflows/runs"
)

// What a run needs of the store, for as long as it exists:
//
//   - of its standing nodes everything, and of its trainings, while it is not
//     finished, everything too: retention looks after those;
//   - of a training that only finished runs want: the claimed checkpoints and the
//     newest, from which a longer run goes on, the metric rows of closed
//     segments, and the records of the open one;
//   - the logs of its attempts, and its sources.
//
// Objects that no run needs are condemned, if they are old enough.

// need is what must stay of a node.
type need int

const (
	needNothing need = iota
	needRecord       // the commit with its inline blobs
	needRows         // the commit and the metric rows of its segment
	needAll
)

// needs are those of all runs, for the nodes that are stored.
type needs struct {
	inv   *inventory
	nodes map[storage.Key]need
	// logs and sources that belong to a run.
	runs    map[string]bool
	sources map[storage.Digest]bool
	chains  map[storage.Key]*wantedChain
}

// wantedChain is a training with what all runs want of it.
type wantedChain struct {
	shape  *plan.Chain
	claims retention.Claims
	live   bool // an unfinished run works on it
}

func (x *needs) need(key storage.Key, n need) {
	if x.inv.nodes[key] != nil {
		x.nodes[key] = max(x.nodes[key], n)
	}
}

// mark works out what the runs need.
func (c *Collector) mark(ctx context.Context, inv *inventory, all []*runs.Run) (*needs, error) {
	x := &needs{inv: inv, nodes: map[storage.Key]need{}, runs: map[string]bool{}, sources: map[storage.Digest]bool{},
		chains: map[storage.Key]*wantedChain{}}
	for _, r := range all {
		if err := c.markRun(ctx, x, r); err != nil {
			return nil, fmt.Errorf("collecting garbage: what run %s needs cannot be worked out: %w; nothing is deleted (coalmine rm %s, if it is of no use)", r.ID, err, r.ID)
		}
	}
	for _, recipe := range plan.SortedKeys(x.chains) {
		if err := x.markChain(ctx, x.chains[recipe]); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (c *Collector) markRun(ctx context.Context, x *needs, r *runs.Run) error {
	x.runs[r.ID] = true
	sources, err := c.Sources(r)
	if err != nil {
		return err
	}
	for _, digest := range sources {
		x.sources[digest] = true
	}
	p, err := c.Compile(ctx, r)
	if r.State.Error != "" && tasks.IsPermanent(err) {
		return nil // rejected: it has no plan and never had one
	}
	if err != nil {
		return err
	}
	for key := range p.Nodes {
		x.need(key, needAll)
	}
	for recipe, claim := range retention.ClaimsOf(&r.State, p) {
		w := x.chains[recipe]
		if w == nil {
			w = &wantedChain{shape: p.Chains[recipe]}
			x.chains[recipe] = w
		}
		w.claims = append(w.claims, claim)
		w.live = w.live || !r.State.Phase.Finished()
	}
	return nil
}

// markChain walks the keys of a training once, 150 ns a step.
func (x *needs) markChain(ctx context.Context, w *wantedChain) error {
	frontier := 0
	for r := 1; r <= w.claims.Limit(); r++ {
		if r%tasks.SegmentSteps == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if n := x.inv.nodes[w.shape.Key(r)]; n != nil && n.commit != nil {
			frontier = r
		}
	}
	for r := 1; r <= w.claims.Limit(); r++ {
		if r%tasks.SegmentSteps == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		x.need(w.shape.Key(r), w.needs(r, frontier))
		for j := 0; w.live && j < w.shape.Width; j++ {
			x.need(w.shape.PartKey(r, j), needAll)
		}
	}
	return nil
}

// needs is what must stay of a step.
func (w *wantedChain) needs(step, frontier int) need {
	switch {
	case w.live, step == frontier, w.claims.Keep(step, frontier):
		return needAll
	case plan.Boundary(step) && step < frontier:
		return needRows
	case step < frontier && plan.SegmentEnd(step) > frontier:
		return needRecord
	}
	return needNothing
}

// condemn returns what is to be deleted, in batches: nodes, then logs and
// leftovers of records, then sources, each by itself.
func (c *Collector) condemn(ctx context.Context, inv *inventory, all []*runs.Run) ([][]storage.Object, *Collection, error) {
	x, err := c.mark(ctx, inv, all)
	if err != nil {
		return nil, nil, err
	}
	s := sentence{Collection: c.newCollection(), now: c.now(), age: c.OlderThan}
	s.Runs = len(all)
	for _, key := range plan.SortedKeys(inv.nodes) {
		n := inv.nodes[key]
		drop, keep, err := c.split(ctx, n, key, x.nodes[key])
		if err != nil {
			return nil, nil, err
		}
		s.Kept.add(keep...)
		s.condemn(n.newest, drop...)
	}
	for _, o := range inv.others {
		if x.needsOther(o) {
			s.Kept.add(o)
		} else {
			s.condemn(o.Modified, o)
		}
	}
	s.cut()
	return s.batches, s.Collection, nil
}

// batchObjects is how many objects are deleted between two looks at the runs.
const batchObjects = 1000

// sentence collects what is condemned.
type sentence struct {
	*Collection
	now     time.Time
	age     time.Duration
	batch   []storage.Object
	batches [][]storage.Object
}

// condemn adds objects that nobody needs, if the newest of them is old enough.
func (s *sentence) condemn(newest time.Time, objects ...storage.Object) {
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
func (s *sentence) cut() {
	if len(s.batch) > 0 {
		s.batches = append(s.batches, s.batch)
		s.batch = nil
	}
}

// needsOther reports whether a log, a record or a source has to stay.
func (x *needs) needsOther(o storage.Object) bool {
	if o.Kind == storage.SourceObject {
		return x.sources[o.Digest]
	}
	return x.runs[o.Run] || o.IsSpec() // a spec makes a run, if a new one
}

// split tells what of a node goes from what stays.
func (c *Collector) split(ctx context.Context, n *storedNode, key storage.Key, need need) (drop, keep []storage.Object, err error) {
	switch {
	case need == needNothing:
		return n.objects(), nil, nil
	case need == needAll || n.commit == nil || len(n.blobs) == 0:
		return nil, n.objects(), nil
	}
	commit, err := c.Archive.Committed(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, n.objects(), nil // it is being run again, or will be
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
