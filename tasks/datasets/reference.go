package datasets

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/tasks"
)

// ReferenceUsers draws the users that a reference model trains on, out of all balanced users,
// held-out ones included (Carlini et al. 2022, Membership Inference Attacks From First
// Principles, section IV): half of them at random, and for the next model the other half, so
// that every user is in exactly half of an even number of models.
//
// Params: ReferenceParams. Input "balanced": Balance. Metrics: Counts of those drawn. Blobs are
// those of Balance: the users drawn as if they trained, the others as if they were held out.
var ReferenceUsers = tasks.Kind{Name: "datasets/reference-users", Version: 1, Class: tasks.Compute, Run: runReferenceUsers}

// ReferenceParams are the parameters of ReferenceUsers.
type ReferenceParams struct {
	Seed uint64 `json:"seed"`
	// Model counts from 0.
	Model int `json:"model"`
}

func runReferenceUsers(ctx context.Context, t *tasks.Task) error {
	var p ReferenceParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	members, err := ReadIndex(ctx, t, BalancedInput, PopulationIndexBlob)
	if err != nil {
		return err
	}
	heldOut, err := ReadIndex(ctx, t, BalancedInput, HeldOutIndexBlob)
	if err != nil {
		return err
	}
	all := slices.Concat(members.Extents, heldOut.Extents)
	out := p.Drawn(len(all))
	for u := range out {
		out[u] = !out[u]
	}
	drawn, others := split(all, out)
	if len(drawn) == 0 {
		return tasks.Permanent(fmt.Errorf("reference model %d has none of %d users to train on; expected 2 users at least", p.Model, len(all)))
	}
	byOffset(drawn)
	byOffset(others)
	if err := t.Put(ctx, PopulationIndexBlob, members.WithExtents(drawn).encode()); err != nil {
		return err
	}
	if err := t.Put(ctx, HeldOutIndexBlob, members.WithExtents(others).encode()); err != nil {
		return err
	}
	return t.SetMetrics(countUsers(drawn))
}

// Drawn says which of n users the model trains on: those of Balance that train, then those
// that are held out. Of an odd number the models of even number have one less.
func (p ReferenceParams) Drawn(n int) []bool {
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

// byOffset orders users as an Index has them.
func byOffset(users []Extent) {
	slices.SortFunc(users, func(a, b Extent) int { return cmp.Compare(a.Offset, b.Offset) })
}
