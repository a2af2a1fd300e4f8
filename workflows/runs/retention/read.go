package retention

import (
	"context"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/availability"
)

// Read finds checkpoints that were kept only for a standing node, which has read them.
type Read struct {
	// LookUp asks storage for a node.
	LookUp func(context.Context, storage.Key) (availability.Node, error)
	Chain  *Chain
	// Steps lists the steps of those checkpoints, ascending, unless something else keeps them.
	Steps []int
}

// mayBeGone is the number of last steps that may be deleted before earlier ones: a
// training that is at the last step when it is read deletes that step with the next.
const mayBeGone = 1

// Find returns the nodes to delete, with the records of closed segments: all checkpoints,
// in order, or none if an earlier term has deleted them. Deletions are in order, so it
// looks up only the last steps.
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
