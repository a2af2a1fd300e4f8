package canaries

import (
	"context"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Insert puts canaries into balanced users, as an overlay: no data is rewritten, and other parts
// are not changed.
//
// Every canary draws by itself, on the original examples: each balanced user becomes its secret
// sharer with probability p_u, and each example of a sharer is replaced with probability p_e. An
// example that several canaries draw goes to one of them, all equally likely. The users and
// examples that a canary draws depend only on the seed and its number, not on other canaries.
//
// A canary with a chosen number of insertions draws that number of examples instead, uniformly out
// of all that no earlier canary has taken.
//
// Params: InsertParams. Inputs: "balanced": datasets/balance; "canaries": Draw.
// Metrics: InsertMetrics. Blobs:
//
//	overlay   population.Overlay over the index of the balanced users
//	canaries  JSON array of population.Placement
var Insert = tasks.Kind{Name: "canaries/insert", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runInsert)}

// CanariesInput names the Draw node as an input of Insert; the other input is
// population.BalancedInput.
const CanariesInput = "canaries"

// InsertParams are the parameters of Insert.
type InsertParams struct {
	Seed uint64 `json:"seed"`
}

// InsertMetrics counts the changes of the insertion to the balanced users.
type InsertMetrics struct {
	// ReplacedExamples counts the examples, out of Examples, replaced by canaries.
	ReplacedExamples int `json:"replaced_examples"`
	Examples         int `json:"examples"`
	// Collisions counts draws that lost an example to another canary.
	Collisions int `json:"collisions"`
	// SecretSharers counts the users, out of Users, with at least one canary.
	SecretSharers int `json:"secret_sharers"`
	Users         int `json:"users"`
	// NeverInserted counts canaries without a copy, except those held back.
	NeverInserted int `json:"never_inserted"`
}

func runInsert(ctx context.Context, t *tasks.Task, p *InsertParams) error {
	index, err := population.ReadIndex(ctx, t, population.BalancedInput, population.MembersIndexBlob)
	if err != nil {
		return err
	}
	var drawn []population.Canary
	if err := t.InputJSON(ctx, CanariesInput, population.CanariesBlob, &drawn); err != nil {
		return err
	}
	list, all, err := drawPlaces(ctx, t, p.Seed, drawn, index)
	if err != nil {
		return err
	}
	chosen, err := choosePlaces(p.Seed, list, index)
	if err != nil {
		return tasks.Permanent(err)
	}
	all = append(all, chosen...)
	placed := settle(p.Seed, all)
	if err := population.WritePlacements(ctx, t, list, placed); err != nil {
		return err
	}
	return t.SetMetrics(measure(list, placed, len(all), index.Counts()))
}

// drawPlaces draws the places of every canary with probabilities. They may contain an example
// several times.
func drawPlaces(ctx context.Context, t *tasks.Task, seed uint64, drawn []population.Canary, index *population.Index) ([]population.Placement, population.Overlay, error) {
	var all population.Overlay
	list := make([]population.Placement, len(drawn))
	for i, c := range drawn {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		list[i].Canary = c
		if c.HeldBack || c.InsertedTimes > 0 {
			continue
		}
		pu, pe, err := ConfigurationOf(&c).Probabilities()
		if err != nil {
			return nil, nil, tasks.Permanent(fmt.Errorf("canary %d: %w", c.Number, err))
		}
		for _, u := range drawSharers(seed, c.Number, len(index.Extents), pu) {
			list[i].Users++
			for _, e := range drawExamples(seed, c.Number, u, index.Extents[u].Examples, pe) {
				all = append(all, population.Replacement{User: u, Example: e, Canary: c.Number})
			}
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(drawn))})
	}
	return list, all, nil
}

func drawSharers(seed uint64, canary, n int, p float64) []int {
	return heads(seeds.Stream(seed, seeds.SecretSharers, uint64(canary)), n, p)
}

func drawExamples(seed uint64, canary, user, n int, p float64) []int {
	return heads(seeds.Stream(seed, seeds.Insertions, uint64(canary), uint64(user)), n, p)
}

// heads tosses a coin for each of n numbers, and returns those with heads, of probability p.
func heads(rng *rand.Rand, n int, p float64) (drawn []int) {
	for i := range n {
		if rng.Float64() < p {
			drawn = append(drawn, i)
		}
	}
	return drawn
}

// settle sorts the places and assigns an example drawn by several canaries to one of them.
func settle(seed uint64, all population.Overlay) population.Overlay {
	all.Sort()
	var placed population.Overlay
	for len(all) > 0 {
		first, same := all[0], 1
		for same < len(all) && all[same].User == first.User && all[same].Example == first.Example {
			same++
		}
		winner := first
		if same > 1 {
			rng := seeds.Stream(seed, seeds.Collisions, uint64(first.User), uint64(first.Example))
			winner = all[rng.IntN(same)]
		}
		placed = append(placed, winner)
		all = all[same:]
	}
	return placed
}

func measure(list []population.Placement, placed population.Overlay, draws int, counts population.Counts) InsertMetrics {
	m := InsertMetrics{
		ReplacedExamples: len(placed),
		Examples:         counts.Examples,
		Collisions:       draws - len(placed),
		Users:            counts.Users,
	}
	for i, r := range placed {
		if i == 0 || r.User != placed[i-1].User {
			m.SecretSharers++
		}
	}
	for _, c := range list {
		if !c.HeldBack && c.Insertions == 0 {
			m.NeverInserted++
		}
	}
	return m
}
