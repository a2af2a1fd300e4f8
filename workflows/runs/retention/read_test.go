package retention_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs/retention"
)

// Whether checkpoints that were read are still there is told by the last two: a training may
// have stood at the last, and so have deleted it first.
func TestReadCheckpointsAreRetiredUnlessGone(t *testing.T) {
	t.Parallel()
	shape := chainOf(plantest.Federated(t, plantest.ChainOptions{Width: 2, Steps: 130}))
	whole := &storage.Commit{Blobs: []storage.Blob{{Name: "model", Size: storage.MaxInline + 1}}}
	for what, c := range map[string]struct {
		frontier    int
		whole, bare []int // steps with blobs, and with a record alone
		want        bool
	}{
		"all are there":                           {frontier: 60, whole: []int{20, 21, 22, 23}, want: true},
		"the last went with the next step":        {frontier: 60, whole: []int{22}, bare: []int{20, 21, 23}, want: true},
		"all have gone":                           {frontier: 60, bare: []int{20, 21, 22, 23}},
		"the records are of a segment closed now": {frontier: 110, bare: []int{20, 21, 22, 23}, want: true},
		"the records have gone, too":              {frontier: 110},
	} {
		read := retention.Read{Chain: &retention.Chain{Shape: shape, Frontier: c.frontier}, Steps: []int{20, 21, 22, 23}}
		read.LookUp = func(_ context.Context, key storage.Key) (plan.Stored, error) {
			is := func(step int) bool { return shape.Key(step) == key }
			switch {
			case slices.ContainsFunc(c.whole, is):
				return plan.Stored{Commit: whole}, nil
			case slices.ContainsFunc(c.bare, is):
				return plan.Stored{Commit: whole, Evicted: []string{"model"}}, nil
			}
			return plan.Stored{}, nil
		}
		left, err := read.Find(t.Context())
		var steps []int
		for _, r := range left {
			if r.What == retention.WholeStep {
				steps = append(steps, r.Step)
			}
		}
		if err != nil || c.want && !slices.Equal(steps, read.Steps) || !c.want && len(left) > 0 {
			t.Errorf("%s: %v go (%v), want all: %v", what, left, err, c.want)
		}
	}
	away := errors.New("away")
	read := retention.Read{Chain: &retention.Chain{Shape: shape}, Steps: []int{1}, LookUp: func(context.Context, storage.Key) (plan.Stored, error) {
		return plan.Stored{}, away
	}}
	if _, err := read.Find(t.Context()); !errors.Is(err, away) {
		t.Errorf("with a store that is away: %v", err)
	}
}

func chainOf(p *plan.Plan) *plan.Chain {
	for _, c := range p.Chains {
		return c
	}
	return nil
}
