// Package oneshot estimates epsilon by one federated training in which canary clients take
// part (Andrew et al. 2024, One-shot Empirical Privacy Estimation for Federated Learning).
//
//	canaries/clients  a population -> the same followed by users without data
//	audits/one-shot   the estimates, from the models before and after training, and from the
//	                  cosines that the server has followed
//
// Package canaries has the updates of the clients and the server's part, privacy/empirical the estimate.
package oneshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
)

type ClientsParams struct {
	Clients int `json:"clients"`
	// Coins reports whether the population has the coins of another audit, which are passed on.
	Coins bool `json:"coins,omitempty"`
}

// Clients adds users without data after those of a population. Cohorts and the accountant count them
// as users.
//
// Input: "population": datasets/partition, or the node of another planter. Metrics and blobs are those
// of datasets/partition, and audits.UnitsBlob, without coins an empty list.
var Clients = tasks.Kind{Name: "canaries/clients", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runClients)}

const PopulationInput = "population"

func runClients(ctx context.Context, t *tasks.Task, p *ClientsParams) error {
	if p.Clients < 1 {
		return tasks.Permanent(fmt.Errorf("%d canary clients; expected at least 1", p.Clients))
	}
	handOn := func() error { return t.PutJSON(ctx, audits.UnitsBlob, []audits.Unit{}) }
	if p.Coins {
		handOn = func() error { return t.Keep(ctx, PopulationInput, audits.UnitsBlob, audits.UnitsBlob) }
	}
	if err := handOn(); err != nil {
		return err
	}
	pop, err := population.Open(ctx, t, PopulationInput, PopulationInput)
	if err != nil {
		return err
	}
	list, err := population.ReadPlacements(ctx, t, PopulationInput)
	if err != nil {
		return err
	}
	var before population.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &before); err != nil {
		return err
	}
	return population.Write(ctx, t, extended(pop.Index(), p.Clients), list, pop.Replacements(), before.DiscardedExamples)
}

func extended(index *population.Index, users int) *population.Index {
	end := population.Extent{}
	if n := len(index.Extents); n > 0 {
		end.Offset = index.Extents[n-1].Offset + index.Extents[n-1].Length
	}
	return index.WithExtents(slices.Concat(index.Extents, slices.Repeat([]population.Extent{end}, users)))
}

type EstimateParams struct {
	Seed uint64 `json:"seed"`
	// Canaries is the number of canary clients in the training.
	Canaries int `json:"canaries"`
	// Final asks for the estimate from the last model.
	Final bool `json:"final,omitempty"`
	// Watch asks for the estimate from all rounds, which the server has followed. It may be nil.
	Watch *canaries.Watch `json:"watch,omitempty"`
	Delta float64         `json:"delta"`
	// Unit and Neighbouring name the unit of a client and the change of an estimate, for printing.
	// Neighbouring is empty for privacy.AddOrRemoveOne.
	Unit         string               `json:"unit"`
	Neighbouring privacy.Neighbouring `json:"neighbouring,omitempty"`
}

// Estimator estimates epsilon from the cosines of canaries with the released models.
//
// Inputs: "model": the trained checkpoint, with the cosines that the server followed; "initial": the
// checkpoint before training. Its blob OutcomeBlob is an Outcome.
var Estimator = tasks.Kind{Name: "audits/one-shot", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runEstimator)}

const InitialInput = "initial"

// OutcomeBlob is an Outcome, as JSON.
const OutcomeBlob = "one-shot"

func runEstimator(ctx context.Context, t *tasks.Task, p *EstimateParams) error {
	change, err := checkpoints.ReadChange(ctx, t, InitialInput, audits.ModelInput)
	if err != nil {
		return err
	}
	c := external.Cosines{Dimension: len(change), Unit: p.Unit}
	if p.Final {
		c.Final = canaries.Directions{Seed: p.Seed}.Cosines(change, 0, p.Canaries)
	}
	if p.Watch != nil {
		followed, err := p.Watch.Read(ctx, t, audits.ModelInput)
		if err != nil {
			return err
		}
		largest := lists.Map(followed, func(cosine float32) float64 { return float64(cosine) })
		c.Largest, c.Unseen = largest[:p.Watch.Canaries], largest[p.Watch.Canaries:]
	}
	return (&Outcome{Canaries: p.Canaries, Delta: p.Delta, Neighbouring: cmp.Or(p.Neighbouring, privacy.AddOrRemoveOne)}).put(ctx, t, &c)
}

type ReportParams struct {
	OneShot external.OneShot `json:"one_shot"`
	Delta   float64          `json:"delta"`
}

// ReportEstimator estimates epsilon from the cosines that an external training reports. Its input is
// "model": external/train. Its blob OutcomeBlob is an Outcome.
var ReportEstimator = tasks.Kind{Name: "audits/one-shot-told", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runReportEstimator)}

func runReportEstimator(ctx context.Context, t *tasks.Task, p *ReportParams) error {
	c, err := p.OneShot.Cosines(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	asked := external.Cosines{Dimension: c.Dimension, Unit: cmp.Or(c.Unit, "user")}
	if p.OneShot.Final {
		asked.Final = c.Final
	}
	if p.OneShot.Unseen > 0 {
		asked.Largest, asked.Unseen = c.Largest, c.Unseen
	}
	return (&Outcome{Canaries: p.OneShot.Canaries, Delta: p.Delta, Neighbouring: privacy.AddOrRemoveOne, Reported: true}).put(ctx, t, &asked)
}

// put estimates from the given cosines, and puts the outcome.
func (v *Outcome) put(ctx context.Context, t *tasks.Task, c *external.Cosines) error {
	v.Dimension, v.Unit, v.Clients = c.Dimension, c.Unit, make([]Client, v.Canaries, v.Canaries+len(c.Unseen))
	for i := range v.Clients {
		v.Clients[i].Seen = true
	}
	if c.Final != nil {
		e, err := empirical.FinalIterate(c.Final, v.Dimension, v.Delta)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("the change of the model: %w", err))
		}
		v.Final = &e
		for i := range c.Final {
			v.Clients[i].FinalCosine = &c.Final[i]
		}
	}
	if c.Largest != nil {
		e, err := empirical.AllIterates(c.Largest, c.Unseen, v.Delta)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("the updates of all rounds: %w", err))
		}
		v.AllIterates, v.Unseen = &e, len(c.Unseen)
		v.Clients = v.Clients[:cap(v.Clients)]
		for i, cosines := 0, append(c.Largest[:len(c.Largest):len(c.Largest)], c.Unseen...); i < len(cosines); i++ {
			v.Clients[i].LargestCosine = &cosines[i]
		}
	}
	return t.PutJSON(ctx, OutcomeBlob, v)
}
