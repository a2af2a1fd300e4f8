package filters

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Half keeps one half of a population, chosen by a coin per record. The two halves of one seed are
// disjoint and together have all records.
//
// Params: HalfParams. Inputs: population.Input, population.ShardsInput. Blobs and metrics are as for Partition,
// with new shards.
var Half = tasks.Kind{Name: "datasets/half", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runHalf)}

// HalfParams are the parameters of Half.
type HalfParams struct {
	Seed uint64 `json:"seed"`
	// Half is 0 or 1.
	Half int `json:"half"`
}

func runHalf(ctx context.Context, t *tasks.Task, p *HalfParams) error {
	if p.Half != 0 && p.Half != 1 {
		return tasks.Permanent(fmt.Errorf("half %d of a population; expected 0 or 1", p.Half))
	}
	next := halves(p.Seed)
	return population.Rewrite(ctx, t, func(x population.Example) ([]int32, error) {
		if next() != p.Half {
			return nil, nil
		}
		return x.Words, nil
	})
}

// halves returns a function that draws the half, 0 or 1, of the next record of a population.
func halves(seed uint64) func() int {
	coins := seeds.Stream(seed, seeds.Halves)
	return func() int { return int(coins.Uint64() & 1) }
}

// Disagree removes from a population the sentences on which two models disagree, canaries included,
// and counts the memorized sentences that it missed. The models were trained on its two halves
// (Carlini et al. 2019, section 9.2): one has seen a sentence, the other has not, and they disagree
// if the first has memorized it. The filter may miss a sentence that is in both halves.
//
// Params: DisagreeParams. Inputs: population.Input, population.ShardsInput, and LossesInput of both halves.
// Blobs and metrics are as for Partition, with new shards, and
//
//	disagreement   Disagreement, as JSON
var Disagree = tasks.Kind{Name: "datasets/disagree", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runDisagree)}

// DisagreementBlob is a Disagreement, as JSON.
const DisagreementBlob = "disagreement"

// LossesInput returns the name of the input with the LossesBlob under the model of a half.
func LossesInput(half int) string { return fmt.Sprintf("losses-%d", half) }

// DisagreeParams are the parameters of Disagree.
type DisagreeParams struct {
	// Seed is the seed of the halves.
	Seed uint64 `json:"seed"`
	// Threshold is the difference of losses, in nats per token, above which sentences are removed.
	Threshold float64 `json:"threshold"`
}

// Disagreement counts the sentences and canaries that the filter removed.
type Disagreement struct {
	Threshold float64 `json:"threshold"`
	// Sentences counts all, and removed, sentences that are not canaries.
	Sentences Removed `json:"sentences"`
	// Configurations count the canaries that had copies in the population by how they were
	// inserted, in the order of their first canary.
	Configurations []RemovedConfiguration `json:"configurations"`
	// Canaries lists the canaries with copies in the population, by number. All copies of a canary
	// are removed, or none.
	Canaries []DisagreedCanary `json:"canaries"`
}

// Removed counts removed items and their total.
type Removed struct {
	Removed int `json:"removed"`
	Of      int `json:"of"`
}

func (r *Removed) count(removed bool) {
	r.Of++
	if removed {
		r.Removed++
	}
}

// RemovedConfiguration counts the canaries of one configuration and format.
type RemovedConfiguration struct {
	UserProbability    string `json:"user_probability,omitempty"`
	ExampleProbability string `json:"example_probability,omitempty"`
	InsertedTimes      int    `json:"inserted_times,omitempty"`
	Format             string `json:"format,omitempty"`
	Removed
}

// DisagreedCanary is a canary and its losses under the two models.
type DisagreedCanary struct {
	Number int `json:"number"`
	// Copies counts the copies in each half.
	Copies [2]int `json:"copies"`
	// Losses under the model of each half, in nats a token.
	Losses  [2]float64 `json:"losses"`
	Removed bool       `json:"removed"`
}

func (d *Disagreement) String() string {
	var apart, both Removed
	for _, c := range d.Canaries {
		if c.Copies[0] > 0 && c.Copies[1] > 0 {
			both.count(c.Removed)
		} else {
			apart.count(c.Removed)
		}
	}
	return fmt.Sprintf("the disagreement filter removed %d of %d canaries whose copies are in one half, %d of %d with copies in both, and %d of %d other sentences",
		apart.Removed, apart.Of, both.Removed, both.Of, d.Sentences.Removed, d.Sentences.Of)
}

func runDisagree(ctx context.Context, t *tasks.Task, p *DisagreeParams) error {
	if !(p.Threshold > 0) {
		return tasks.Permanent(fmt.Errorf("disagreement by more than %g nats a token; expected more than 0", p.Threshold))
	}
	list, err := population.ReadPlacements(ctx, t, population.Input)
	if err != nil {
		return err
	}
	f := disagreeFilter{threshold: p.Threshold, placements: list, half: halves(p.Seed)}
	f.found = Disagreement{Threshold: p.Threshold, Configurations: []RemovedConfiguration{}, Canaries: []DisagreedCanary{}}
	for half := range f.losses {
		if f.losses[half], err = population.ReadLosses(ctx, t, LossesInput(half)); err != nil {
			return err
		}
	}
	if err := population.Rewrite(ctx, t, f.filter); err != nil {
		return err
	}
	f.countConfigurations()
	return t.PutJSON(ctx, DisagreementBlob, f.found)
}

type disagreeFilter struct {
	threshold  float64
	placements []population.Placement
	half       func() int   // half of the next record
	losses     [2][]float64 // of the records, under the model of each half
	record     int          // next record
	found      Disagreement
}

func (f *disagreeFilter) filter(x population.Example) ([]int32, error) {
	if f.record >= min(len(f.losses[0]), len(f.losses[1])) {
		return nil, fmt.Errorf("%d and %d losses, too few for the records of the population: %w", len(f.losses[0]), len(f.losses[1]), storage.ErrCorrupt)
	}
	losses := [2]float64{f.losses[0][f.record], f.losses[1][f.record]}
	f.record++
	removed := math.Abs(losses[0]-losses[1]) > f.threshold
	half := f.half()
	if x.Canary < 0 {
		f.found.Sentences.count(removed)
	} else {
		f.canary(x.Canary, losses, removed).Copies[half]++
	}
	if removed {
		return nil, nil
	}
	return x.Words, nil
}

// canary returns the entry of a canary, a new one if necessary.
func (f *disagreeFilter) canary(number int, losses [2]float64, removed bool) *DisagreedCanary {
	list := f.found.Canaries
	at, there := slices.BinarySearchFunc(list, number, func(c DisagreedCanary, n int) int { return c.Number - n })
	if !there {
		list = slices.Insert(list, at, DisagreedCanary{Number: number, Losses: losses, Removed: removed})
		f.found.Canaries = list
	}
	return &list[at]
}

func (f *disagreeFilter) countConfigurations() {
	for _, c := range f.found.Canaries {
		p := &f.placements[c.Number]
		entry := RemovedConfiguration{
			UserProbability: p.UserProbability, ExampleProbability: p.ExampleProbability, InsertedTimes: p.InsertedTimes, Format: p.Format,
		}
		at := slices.IndexFunc(f.found.Configurations, func(o RemovedConfiguration) bool {
			o.Removed = Removed{}
			return o == entry
		})
		if at < 0 {
			at = len(f.found.Configurations)
			f.found.Configurations = append(f.found.Configurations, entry)
		}
		f.found.Configurations[at].count(c.Removed)
	}
}
