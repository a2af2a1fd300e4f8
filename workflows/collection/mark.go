package collection

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/retention"
	"coalmine/workflows/runs"
	"coalmine/workflows/sources"
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
// A name of the library needs its sources and the corpus that was imported from them.

// need is what must stay of a node.
type need int

const (
	needNothing need = iota
	needRecord       // the commit with its inline blobs
	needRows         // the commit and the metric rows of its segment
	needAll
)

// marks are what all runs need of what is stored.
type marks struct {
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

func (x *marks) markNode(key storage.Key, n need) {
	if x.inv.nodes[key] != nil {
		x.nodes[key] = max(x.nodes[key], n)
	}
}

// mark works out what the runs need of an inventory.
func (c *Collector) mark(ctx context.Context, inv *inventory, all []*runs.Run) (*marks, error) {
	x := &marks{inv: inv, nodes: map[storage.Key]need{}, runs: map[string]bool{}, sources: map[storage.Digest]bool{},
		chains: map[storage.Key]*wantedChain{}}
	if err := c.markLibrary(ctx, x); err != nil {
		return nil, err
	}
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

// markLibrary marks the sources that have a name, and what was read from them.
func (c *Collector) markLibrary(ctx context.Context, x *marks) error {
	entries, err := sources.Library{Archive: c.Archive}.Entries(ctx)
	if err != nil {
		return fmt.Errorf("collecting garbage: what the library needs cannot be worked out: %w; nothing is deleted (coalmine data remove NAME, if it is of no use)", err)
	}
	for _, e := range entries {
		for _, digest := range e.Files {
			x.sources[digest] = true
		}
		x.markNode(e.Corpus, needAll)
	}
	return nil
}

func (c *Collector) markRun(ctx context.Context, x *marks, r *runs.Run) error {
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
		x.markNode(key, needAll)
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
func (x *marks) markChain(ctx context.Context, w *wantedChain) error {
	frontier, limit := 0, w.claims.Limit()
	for r := 1; r <= limit; r++ {
		if r%tasks.SegmentSteps == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if n := x.inv.nodes[w.shape.Key(r)]; n != nil && n.commit != nil {
			frontier = r
		}
	}
	for r := 1; r <= limit; r++ {
		if r%tasks.SegmentSteps == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		x.markNode(w.shape.Key(r), w.needs(r, frontier))
		for j := 0; w.live && j < w.shape.Width; j++ {
			x.markNode(w.shape.PartKey(r, j), needAll)
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

// needsOther reports whether a log, a record or a source has to stay.
func (x *marks) needsOther(o storage.Object) bool {
	if o.Kind == storage.SourceObject {
		return x.sources[o.Digest]
	}
	return x.runs[o.Run] || o.IsSpec() // a spec makes a run, if a new one
}
