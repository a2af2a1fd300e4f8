package population

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/tasks"
)

// ReferenceUsers draws the users that a reference model trains on, out of all balanced users,
// held-out ones included (Carlini et al. 2022, Membership Inference Attacks From First Principles,
// section IV): a random half for each model of even number, and the other half for the next, so
// that every user is in exactly half of an even number of models.
//
// Params: ReferenceParams. Input "balanced": Balance. Metrics: Counts of the drawn users. Blobs are
// as for Balance: the drawn users as users that train, other users as held out.
var ReferenceUsers = tasks.Kind{Name: "datasets/reference-users", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runReferenceUsers)}

// ReferenceParams are the parameters of ReferenceUsers.
type ReferenceParams struct {
	Seed uint64 `json:"seed"`
	// Model counts from 0.
	Model int `json:"model"`
}

func runReferenceUsers(ctx context.Context, t *tasks.Task, p *ReferenceParams) error {
	members, err := ReadIndex(ctx, t, BalancedInput, MembersIndexBlob)
	if err != nil {
		return err
	}
	heldOut, err := ReadIndex(ctx, t, BalancedInput, HeldOutIndexBlob)
	if err != nil {
		return err
	}
	all := slices.Concat(members.Extents, heldOut.Extents)
	others, drawn := split(all, p.Members(len(all)))
	if len(drawn) == 0 {
		return tasks.Permanent(fmt.Errorf("reference model %d has none of %d users to train on; expected 2 users at least", p.Model, len(all)))
	}
	byOffset(drawn)
	byOffset(others)
	if err := putUsers(ctx, t, members, drawn, others); err != nil {
		return err
	}
	return t.SetMetrics(countUsers(drawn))
}

// Members reports for each of n users whether the model trains on it: the training users of Balance,
// then the held-out ones. If n is odd, models of even number have one user less.
func (p ReferenceParams) Members(n int) []bool {
	drawn := make([]bool, n)
	order := seeds.Stream(p.Seed, seeds.ReferenceUsers, uint64(p.Model/2)).Perm(n)
	half := order[:n/2]
	if p.Model%2 == 1 {
		half = order[n/2:]
	}
	for _, u := range half {
		drawn[u] = true
	}
	return drawn
}

// byOffset sorts users by offset, the order of an Index.
func byOffset(users []Extent) {
	slices.SortFunc(users, func(a, b Extent) int { return cmp.Compare(a.Offset, b.Offset) })
}
