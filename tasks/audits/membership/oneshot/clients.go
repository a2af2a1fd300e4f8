// Package oneshot estimates epsilon by one federated training in which canary clients take
// part (Andrew et al. 2024, One-shot Empirical Privacy Estimation for Federated Learning).
//
//	canaries/clients  a population -> the same with users behind it who have no data
//	audits/one-shot   the estimates, from the models before and after training, and from the
//	                  cosines that the server has followed
//
// What the clients send, and what is followed, is in package canaryclients; the estimate in
// privacy/oneshot.
package oneshot

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// ClientsParams are the parameters of canaries/clients.
type ClientsParams struct {
	// Clients is how many users are added.
	Clients int `json:"clients"`
	// Coins says that the population has those of another audit, which are handed on.
	Coins bool `json:"coins,omitempty"`
}

// Clients adds users without data to a population, behind its own. Whoever draws cohorts from
// it, and accounts for them, counts them as users.
//
// Input: "population": datasets/partition, or what another audit has made of it. Metrics and
// blobs are those of datasets/partition, and audits.UnitsBlob, without coins an empty list.
var Clients = tasks.Kind{Name: "canaries/clients", Version: 1, Class: tasks.Compute, Run: runClients}

// PopulationInput is that of Clients.
const PopulationInput = "population"

func runClients(ctx context.Context, t *tasks.Task) error {
	var p ClientsParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Clients < 1 {
		return tasks.Permanent(fmt.Errorf("%d canary clients; expected at least 1", p.Clients))
	}
	if err := p.handOn(ctx, t); err != nil {
		return err
	}
	population, err := datasets.OpenPopulation(ctx, t, PopulationInput, PopulationInput)
	if err != nil {
		return err
	}
	list, err := datasets.ReadPlacements(ctx, t, PopulationInput)
	if err != nil {
		return err
	}
	var before datasets.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &before); err != nil {
		return err
	}
	return datasets.WritePopulation(ctx, t, extended(population.Index(), p.Clients), list, population.Replacements(), before.DiscardedExamples)
}

// handOn keeps the coins of another audit.
func (p *ClientsParams) handOn(ctx context.Context, t *tasks.Task) error {
	if p.Coins {
		return t.Keep(ctx, PopulationInput, audits.UnitsBlob, audits.UnitsBlob)
	}
	return t.PutJSON(ctx, audits.UnitsBlob, []audits.Unit{})
}

// extended is the index with so many users more.
func extended(index *datasets.Index, users int) *datasets.Index {
	extents := slices.Clone(index.Extents)
	end := datasets.Extent{}
	if len(extents) > 0 {
		last := extents[len(extents)-1]
		end.Offset = last.Offset + last.Length
	}
	for range users {
		extents = append(extents, end)
	}
	return index.WithExtents(extents)
}
