package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"coalmine/storage"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

// rememberedCells bounds the results that are remembered, by their cells: one takes some tens
// of KB with its figures.
const rememberedCells = 2000

// outcomes remembers the results of the runs that were asked for last. A page asks for the
// figures of a run one by one, and many pages may: all come from one reading.
type outcomes struct {
	mu    sync.Mutex
	known []*outcome // the one asked for last at the end
}

// outcome is the result of one run, read by one at a time.
type outcome struct {
	run       string
	submitted time.Time // the id of a removed run may be taken again
	cells     int       // of its results; guarded by outcomes.mu
	turn      chan struct{}

	// results are those after the given number of entries of the run's log; nil before the
	// first reading. Only the holder of turn writes them.
	results  *results.Results
	position int
}

// of returns the results of a run, read anew unless those that are remembered hold still. The
// caller owns the value, but not the values that it points to.
func (x *outcomes) of(ctx context.Context, archive *storage.Archive, run *runs.Run) (*results.Results, error) {
	o := x.find(run)
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := o.renew(ctx, archive, run); err != nil {
		return nil, err
	}
	x.shrink(o, len(o.results.Cells))
	own := *o.results
	return &own, nil
}

// find returns the cached entry of a run, empty at first, and moves it to the end.
func (x *outcomes) find(run *runs.Run) *outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.known, func(o *outcome) bool { return o.run == run.ID && o.submitted.Equal(run.State.Submitted) })
	if i < 0 {
		i = len(x.known)
		x.known = append(x.known, &outcome{run: run.ID, submitted: run.State.Submitted, turn: make(chan struct{}, 1)})
	}
	o := x.known[i]
	x.known = append(slices.Delete(x.known, i, i+1), o)
	return o
}

// renew reads the results unless neither the run's log nor its cells have come further.
func (o *outcome) renew(ctx context.Context, archive *storage.Archive, run *runs.Run) error {
	if o.results != nil && o.position >= run.Position() {
		grown, err := o.results.Grown(ctx, archive)
		if err != nil || !grown {
			return err
		}
	}
	found, err := results.Load(ctx, archive, run)
	if err == nil {
		o.results, o.position = found, run.Position()
	}
	return err
}

// shrink notes the number of a run's cells, and evicts the least recently used entries
// beyond the bound. A run of more cells than that is not cached at all.
func (x *outcomes) shrink(read *outcome, cells int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	read.cells = cells
	sum := 0
	for i := len(x.known) - 1; i >= 0; i-- {
		sum += max(1, x.known[i].cells)
		if sum > rememberedCells {
			x.known = slices.Delete(x.known, 0, i+1)
			return
		}
	}
}

// Bounds of the rounds that a curve may be asked for with.
const (
	MinPoints = 2
	MaxPoints = 20_000
)

// Curve implements API.
func (l *Local) Curve(ctx context.Context, name, cell string, points int) (*results.Curve, error) {
	if points < MinPoints || points > MaxPoints {
		return nil, fmt.Errorf("a curve of %d points %w: expected %d to %d", points, ErrInput, MinPoints, MaxPoints)
	}
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return results.LoadCurve(ctx, l.archive, run, cell, points)
}
