package results

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/storage"
	"coalmine/workflows/availability"
	"coalmine/workflows/plan"
)

// Tick is when a cell's training had come to a round, 0 being its initial model.
type Tick struct {
	Round int       `json:"round"`
	Time  time.Time `json:"time"`
}

// readClock is when the training came to the rounds whose records last, and to the last one.
// What other runs have computed was there before.
func readClock(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]Tick, error) {
	nodes, err := timed(ctx, archive, cell)
	if err != nil {
		return nil, err
	}
	ticks := make([]Tick, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, n := range nodes {
		group.Go(func() error {
			commit, err := archive.Committed(ctx, n.key)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			} else if err != nil {
				return err
			}
			took := time.Duration(commit.Provenance.Seconds * float64(time.Second))
			ticks[i] = Tick{n.round, commit.Provenance.Started.Add(took)}
			return nil
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(ticks, func(t Tick) bool { return t.Time.IsZero() }), err
}

// timedNode is a node after which the training has come to a round.
type timedNode struct {
	round int
	key   storage.Key
}

func timed(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]timedNode, error) {
	nodes := []timedNode{{0, cell.Initial.Key}}
	chain := cell.Chain
	if chain == nil {
		return nodes, nil
	}
	done, err := availability.LastStep(ctx, archive, chain)
	steps := append(chain.LastingSteps(), done)
	for _, step := range slices.Compact(slices.Sorted(slices.Values(steps))) {
		if step > 0 && step <= done {
			nodes = append(nodes, timedNode{step * chain.StepRounds, chain.Key(step)})
		}
	}
	return nodes, err
}
