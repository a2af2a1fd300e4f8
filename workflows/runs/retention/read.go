package retention

import (
	"context"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/availability"
)

// Read finds checkpoints that were kept for a standing node alone, which has read them.
type Read struct {
	// LookUp asks storage for a node.
	LookUp func(context.Context, storage.Key) (availability.Node, error)
	Chain  *Chain
	// Steps are those of the checkpoints, ascending, as far as nothing else keeps them.
	Steps []int
}

// mayBeGone is how many of the last steps may have gone while earlier ones have not: a
// training that stood at the last step when it was read deletes that with the next.
const mayBeGone = 1

// Find returns the nodes to delete: all checkpoints, in order, or nothing where an earlier
// term has deleted them, with the records of closed segments. They go in the order of
// steps, so that the last tell.
func (x Read) Find(ctx context.Context) ([]Retirement, error) {
	for i := range min(len(x.Steps), 1+mayBeGone) {
		step := x.Steps[len(x.Steps)-1-i]
		n, err := x.LookUp(ctx, x.Chain.Shape.Key(step))
		if err != nil {
			return nil, err
		}
		stray := n.Commit != nil && x.Chain.Closed(step) && !plan.Boundary(step)
		if stray || n.Available() && hasEvictable(n.Commit) {
			return x.all(), nil
		}
	}
	return nil, nil
}

func (x Read) all() []Retirement {
	var out []Retirement
	for _, step := range x.Steps {
		out = append(out, Retirement{What: WholeStep, Step: step})
	}
	return possible(x.Chain.Shape, out)
}
