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

// rememberedCells bounds the number of cells of cached results: a cell takes some tens of KB
// with its figures.
const rememberedCells = 2000

// outcomes caches the results of the last requested runs. A page requests the figures of a
// run one by one, and there may be many pages: all get the same reading.
type outcomes struct {
	mu    sync.Mutex
	known []*outcome // the last requested one at the end
}

// outcome is the result of one run. One goroutine at a time reads it.
type outcome struct {
	run       string
	submitted time.Time // the id of a removed run may be reused
	cells     int       // of its results; guarded by outcomes.mu
	turn      chan struct{}

	// results are the results after the given number of entries of the run's log; nil
	// before the first reading. Only the holder of turn writes them.
	results  *results.Results
	position int
}

// get returns the results of a run, read again unless the cached ones are current. The caller
// owns the value, but not the values that it points to.
func (x *outcomes) get(ctx context.Context, archive *storage.Archive, run *runs.Run) (*results.Results, error) {
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
	copied := *o.results
	return &copied, nil
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

// renew reads the results if the run's log or its cells have changed.
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

// shrink records the number of a run's cells, and evicts the least recently used
// entries beyond the bound. A run with more cells is not cached.
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

// Bounds of the number of rounds of a requested curve.
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
