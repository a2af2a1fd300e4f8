package retention

import (
	"context"
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// A run needs, for as long as it exists:
//
//   - all objects of the standing nodes of its plans and, while it is not finished, of its
//     trainings: retention deletes behind those;
//   - of a training that only finished runs want, or that only an earlier plan has: the claimed
//     checkpoints and the newest, from which a longer run continues, the metric rows of closed
//     segments, and the records of the open one;
//   - the logs of its attempts, and its sources.
//
// Its plans are those recorded with the run, or else the plan that this build compiles from its experiment.
// If neither is reliable ([Held]), the run may need any node and source, so all of them stay.
//
// A name of the library needs its sources and the corpus that was imported from them.

// need is the part of a node that must stay.
type need int

const (
	needNothing need = iota
	needRecord       // the commit with its inline blobs
	needRows         // the commit and the metric rows of its segment
	needAll
)

// marks are the stored objects that runs need.
type marks struct {
	inv   *inventory
	nodes map[storage.Key]need
	// runs are the runs whose logs and records stay; sources are the sources that stay.
	runs    map[string]bool
	sources map[storage.Digest]bool
	chains  map[storage.Key]*wantedChain
	// held lists the runs with unknown needs.
	held []Held
	// swept holds the needs by which the batches were computed, of nodes with objects to delete.
	swept map[storage.Key]need
}

// Held is a run with unknown needs. Because of it every node and source stays.
type Held struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

func (x *marks) hold(run string, format string, args ...any) {
	x.held = append(x.held, Held{run, fmt.Sprintf(format, args...)})
}

// wantedChain is a training with the steps that all runs want.
type wantedChain struct {
	shape  *plan.Chain
	claims Claims
	live   bool // an unfinished run works on it
	stale  bool // its claims have changed since its nodes were marked
}

func (x *marks) markNode(key storage.Key, n need) {
	if x.inv.nodes[key] != nil {
		x.nodes[key] = max(x.nodes[key], n)
	}
}

// mark marks the objects of an inventory that the runs need.
func (c *Collector) mark(ctx context.Context, inv *inventory, all *allRuns) (*marks, error) {
	x := &marks{inv: inv, nodes: map[storage.Key]need{}, runs: map[string]bool{}, sources: map[storage.Digest]bool{},
		chains: map[storage.Key]*wantedChain{}, swept: map[storage.Key]need{}}
	if err := c.markLibrary(ctx, x); err != nil {
		return nil, err
	}
	for _, r := range all.runs {
		if err := needsOf(r.ID, c.markRun(ctx, x, r)); err != nil {
			return nil, err
		}
	}
	for _, r := range all.unreadable {
		if err := needsOf(r.ID, c.markUnreadable(ctx, x, r)); err != nil {
			return nil, err
		}
	}
	return x, x.markChains(ctx)
}

// needsOf adds the run to an error about marking its needs.
func needsOf(run string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("collecting garbage: cannot determine the objects that run %s needs: %w; nothing more is deleted", run, err)
}

// markChains marks the nodes of the chains with new claims.
func (x *marks) markChains(ctx context.Context) error {
	for _, recipe := range plan.SortedKeys(x.chains) {
		w := x.chains[recipe]
		if !w.stale {
			continue
		}
		if err := x.markChain(ctx, w); err != nil {
			return err
		}
		w.stale = false
	}
	return nil
}

// markLibrary marks the named sources, and the nodes that read them.
func (c *Collector) markLibrary(ctx context.Context, x *marks) error {
	entries, err := sources.Library{Archive: c.Archive}.Entries(ctx)
	if err != nil {
		return fmt.Errorf("collecting garbage: cannot determine the objects that a named source needs: %w; nothing is deleted (to remove a useless source: coalmine data remove NAME)", err)
	}
	for _, e := range entries {
		for _, digest := range e.Files {
			x.sources[digest] = true
		}
		x.markNode(e.Corpus, needAll)
	}
	return nil
}

// markRun marks the needs of a run. Its errors come from the store or ctx.
func (c *Collector) markRun(ctx context.Context, x *marks, r *runs.Run) error {
	x.runs[r.ID] = true
	known, err := c.markRecorded(ctx, x, r)
	switch {
	case errors.Is(err, storage.ErrNewer):
		x.hold(r.ID, "%v", err)
		return nil
	case known || err != nil:
		return err
	}
	return c.markCompiled(ctx, x, r)
}

// markRecorded marks the needs of a run's recorded plans, and reports whether the newest plan is among
// them. Builds that gave the nodes other keys recorded the earlier plans.
func (c *Collector) markRecorded(ctx context.Context, x *marks, r *runs.Run) (known bool, err error) {
	var newest *plan.Plan
	known, err = plan.ReadRecords(ctx, c.Archive, r.ID, func(p *plan.Plan) {
		if newest != nil {
			x.markPlan(&r.State, newest, false)
		}
		newest = p
	})
	if newest != nil {
		x.markPlan(&r.State, newest, known && !r.State.Phase.Finished())
	}
	return known, err
}

// markCompiled marks the needs of a run without a recorded plan.
func (c *Collector) markCompiled(ctx context.Context, x *marks, r *runs.Run) error {
	p, err := c.Compile(ctx, r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case tasks.IsPermanent(err) && r.State.Error != "" && r.State.Started.IsZero():
		return c.markSources(x, r) // rejected: it never had a plan
	case err != nil:
		x.hold(r.ID, "its plan is not recorded and cannot be compiled: %v", err)
		return nil
	}
	lost, err := c.lost(ctx, &r.State, p)
	if err != nil {
		return err
	}
	if lost != "" {
		x.hold(r.ID, "cell %s: %s", lost, plan.LostReport)
	}
	x.markPlan(&r.State, p, !r.State.Phase.Finished())
	return c.markSources(x, r)
}

// lost returns the name of a done cell without a stored report, or "".
func (c *Collector) lost(ctx context.Context, state *runs.State, p *plan.Plan) (string, error) {
	for i := range p.Cells {
		if state.Outcomes[p.Cells[i].Name] != runs.Done {
			continue
		}
		if has, err := plan.HasReport(ctx, c.Archive, p.Cells[i].Report.Key, state.Finished); err != nil || !has {
			return p.Cells[i].Name, err
		}
	}
	return "", nil
}

// markSources marks the sources that the experiment of a run names.
func (c *Collector) markSources(x *marks, r *runs.Run) error {
	files, err := c.Sources(r)
	if err != nil {
		x.hold(r.ID, "its sources are unknown: %v", err)
	}
	for _, digest := range files {
		x.sources[digest] = true
	}
	return nil
}

// markUnreadable marks the needs of a run with an unreadable record.
func (c *Collector) markUnreadable(ctx context.Context, x *marks, r runs.Unreadable) error {
	x.runs[r.ID] = true
	run, err := runs.NewService(c.Archive, nil).WithoutSpec(ctx, r.ID)
	if runs.IsUnreadable(err) {
		run, err = &runs.Run{ID: r.ID, State: runs.State{Phase: runs.Running, Pinned: true}}, nil
	}
	if err != nil {
		return err
	}
	known, err := c.markRecorded(ctx, x, run)
	if errors.Is(err, storage.ErrNewer) {
		known, err = false, nil
	}
	if !known && err == nil {
		x.hold(r.ID, "%v", r.Err)
	}
	return err
}

// markPlan marks the needs of a plan. live reports whether its run is unfinished.
func (x *marks) markPlan(state *runs.State, p *plan.Plan, live bool) {
	for _, digest := range p.Sources {
		x.sources[digest] = true
	}
	for key := range p.Nodes {
		x.markNode(key, needAll)
	}
	for recipe, claim := range ClaimsOf(state, p) {
		w := x.chains[recipe]
		if w == nil {
			w = &wantedChain{shape: p.Chains[recipe]}
			x.chains[recipe] = w
		}
		w.claims = append(w.claims, claim)
		w.live, w.stale = w.live || live, true
	}
}

// markChain marks the nodes of a training. It walks the keys of its steps, at 150 ns a step.
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

// needs returns the part of a step's node that must stay.
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

// need returns the marked need of a node.
func (x *marks) need(key storage.Key) need {
	if len(x.held) > 0 {
		return needAll
	}
	return x.nodes[key]
}

// needsOther reports whether a log, a record or a source must stay.
func (x *marks) needsOther(o storage.Object) bool {
	if o.Kind == storage.SourceObject {
		return x.sources[o.Digest] || len(x.held) > 0
	}
	return x.runs[o.Run] || o.IsSpec() // a spec makes a run, even a new one
}

// needsNow reports whether an object of a batch must stay after all, because a run is new or has changed.
func (x *marks) needsNow(o storage.Object) bool {
	if o.OfNode() {
		return x.need(o.Key) > x.swept[o.Key]
	}
	return x.needsOther(o)
}
