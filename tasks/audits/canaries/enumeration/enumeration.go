// Package enumeration finds the exact exposure of canaries (Carlini et al. 2019, section
// 4.2), by the log-perplexity of every sequence that a canary could be:
//
//	audits/enumeration          counts among some sequences of the space, under one checkpoint
//	audits/enumeration-summary  the ranks of all canaries, and the outcome
package enumeration

import (
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
)

type Params struct {
	canaries.Space
	Prefix int `json:"prefix"`
	// First and Count select sequences after the prefix, in lexicographic order. The task enumerates them
	// after every prefix of a canary.
	First int `json:"first"`
	Count int `json:"count"`
	// Canaries selects the canaries of a space if there are several spaces. Zero selects all.
	Canaries audits.Span `json:"canaries,omitzero"`
}

// Tally is the count for one canary.
type Tally struct {
	// LogPerplexity is the canary's log-perplexity after its prefix, in nats.
	LogPerplexity float64 `json:"log_perplexity"`
	// AtMost is the number of sequences, including the canary, with at most this log-perplexity.
	AtMost int64 `json:"at_most"`
}

// Kind counts the sequences that are at least as likely as each canary. It prunes a beginning that costs more
// than the most expensive canary with its prefix: no sequence costs less than its beginning, so the count is
// exact. Inputs: the checkpoint and the canaries.
var Kind = tasks.Kind{Name: "audits/enumeration", Version: 1, Class: tasks.Compute, Run: audits.Finds(TalliesBlob, tally)}

// TalliesBlob is a JSON array with a Tally for each canary that the task counts for.
const TalliesBlob = "tallies"

func tally(ctx context.Context, t *tasks.Task, p *Params) ([]Tally, error) {
	tables, err := audits.ReadTables(ctx, t)
	if err != nil {
		return nil, err
	}
	list, choices, err := audits.ReadSuffixes(ctx, t, p.Space, p.Prefix, tables.Scorer())
	if err != nil {
		return nil, err
	}
	if p.Canaries.Count > 0 {
		list = list[p.Canaries.First : p.Canaries.First+p.Canaries.Count]
	}
	c := &counter{newSpace(choices), audits.Span{First: p.First, Count: p.Count}, tables.NewTreeScorer(), make([]Tally, len(list))}
	groups := audits.ByPrefix(list, p.Prefix)
	for i, group := range groups {
		if err := c.count(ctx, list, group); err != nil {
			return nil, err
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(groups)), Tokens: c.tree.Work().Advanced})
	}
	return c.tallies, nil
}

type counter struct {
	space   *space
	span    audits.Span
	tree    *models.TreeScorer
	tallies []Tally // by canary
}

// count walks the span once for all canaries of a prefix.
func (c *counter) count(ctx context.Context, list []population.Placement, group audits.Prefixed) error {
	state, err := audits.PrefixState(c.tree.Scorer(), group.Prefix)
	if err != nil {
		return err
	}
	var costs []float64
	for _, i := range group.Numbers {
		cost, err := audits.LogPerplexity(ctx, c.tree, state, list[i].Tokens[len(group.Prefix):])
		if err != nil {
			return err
		}
		c.tallies[i].LogPerplexity = cost
		costs = append(costs, cost)
	}
	slices.Sort(costs)
	between, err := c.between(ctx, state, costs)
	if err != nil {
		return err
	}
	for _, i := range group.Numbers {
		last, _ := slices.BinarySearch(costs, c.tallies[i].LogPerplexity)
		for _, n := range between[:last+1] {
			c.tallies[i].AtMost += n
		}
	}
	return nil
}

// between counts, for each of the ascending costs, the sequences of the span that cost more than it and at
// most the next.
func (c *counter) between(ctx context.Context, state *models.States, costs []float64) ([]int64, error) {
	counts := make([]int64, len(costs))
	err := c.space.enumerate(ctx, c.tree, c.span, state, costs[len(costs)-1], func(cost float64) {
		at, _ := slices.BinarySearch(costs, cost)
		counts[at]++
	})
	return counts, err
}

type SummaryParams struct {
	Parts int `json:"parts"`
	// Sequences is the number of sequences after a prefix, the largest if spaces differ.
	Sequences int64 `json:"sequences"`
	// Groups are the canaries of each space if there are several. The parts have the order of the groups.
	Groups []RankedGroup `json:"groups,omitempty"`
}

// RankedGroup holds canaries of one space and the number of parts that enumerate its sequences.
type RankedGroup struct {
	Canaries  int   `json:"canaries"`
	Parts     int   `json:"parts"`
	Sequences int64 `json:"sequences"`
}

func (p *SummaryParams) groups(canaries int) []RankedGroup {
	if len(p.Groups) > 0 {
		return p.Groups
	}
	return []RankedGroup{{canaries, p.Parts, p.Sequences}}
}

// Summary adds up the counts of the parts and ranks all canaries of one checkpoint.
var Summary = tasks.Kind{Name: "audits/enumeration-summary", Version: 2, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	tallies, sequences, err := sumTallies(ctx, t, p, len(placed))
	if err != nil {
		return nil, nil, err
	}
	v, outcomes := &Outcome{Sequences: p.Sequences}, make([]CanaryOutcome, len(tallies))
	for i := range tallies {
		outcomes[i] = tallies[i].CanaryOutcome(sequences[i])
		if placed[i].Insertions > 0 {
			v.highest = exposure.Higher(v.highest, *outcomes[i].Exposure)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return tallies[canary].AtMost == 1 })
	v.Memorized, v.Of, v.Lowest = found.Memorized, found.Of, found.Lowest
	return v, outcomes, err
}

// sumTallies returns the sum of all parts for each canary, and the number of sequences of its space. The
// parts of a group enumerate its sequences in order.
func sumTallies(ctx context.Context, t *tasks.Task, p *SummaryParams, canaries int) (sums []Tally, sequences []int64, err error) {
	first := 0
	for _, g := range p.groups(canaries) {
		counted := make([]Tally, g.Canaries)
		for part := range g.Parts {
			tallies, err := audits.ReadParts[Tally](ctx, t, TalliesBlob, g.Canaries, tasks.PartInput(first+part))
			if err != nil {
				return nil, nil, err
			}
			for i, tally := range tallies {
				counted[i].LogPerplexity = tally.LogPerplexity
				counted[i].AtMost += tally.AtMost
			}
		}
		first += g.Parts
		sums, sequences = append(sums, counted...), append(sequences, slices.Repeat([]int64{g.Sequences}, g.Canaries)...)
	}
	if first != p.Parts || len(sums) != canaries {
		return nil, nil, tasks.Permanent(fmt.Errorf("groups of %d parts and %d canaries; expected %d and %d", first, len(sums), p.Parts, canaries))
	}
	return sums, sequences, nil
}
