package enumeration

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/enumeration-summary.
type SummaryParams struct {
	// Parts are the tasks that the sequences were enumerated by.
	Parts int `json:"parts"`
	// Sequences is how many may follow a prefix, the most where spaces differ.
	Sequences int64 `json:"sequences"`
	// Groups are the canaries of each space, where there are several; the parts are in
	// their order.
	Groups []RankedGroup `json:"groups,omitempty"`
}

// RankedGroup are canaries that are ranked among so many sequences, by some of the parts.
type RankedGroup struct {
	Canaries  int   `json:"canaries"`
	Parts     int   `json:"parts"`
	Sequences int64 `json:"sequences"`
}

// groups are all canaries in one group, where there are no several.
func (p *SummaryParams) groups(canaries int) []RankedGroup {
	if len(p.Groups) > 0 {
		return p.Groups
	}
	return []RankedGroup{{canaries, p.Parts, p.Sequences}}
}

// Summary adds up what the parts have counted, and ranks all canaries of one checkpoint.
// Its inputs are the parts and audits.PlacementsInput, its blobs those of
// audits.PutSummary, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/enumeration-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Memorized int `json:"enumeration_memorized"`
	// Highest exposure of an inserted canary, in bits; 0 if none was.
	Highest float64 `json:"enumeration_highest_exposure"`
}

func runSummary(ctx context.Context, t *tasks.Task) error {
	var p SummaryParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	placed, err := datasets.ReadPlacements(ctx, t, audits.PlacementsInput)
	if err != nil {
		return err
	}
	tallies, sequences, err := sumTallies(ctx, t, &p, len(placed))
	if err != nil {
		return err
	}
	outcomes, highest := make([]CanaryOutcome, len(tallies)), 0.0
	for i := range tallies {
		outcomes[i] = tallies[i].CanaryOutcome(sequences[i])
		if placed[i].Insertions > 0 {
			highest = max(highest, *outcomes[i].Exposure)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return tallies[canary].AtMost == 1 })
	if err != nil {
		return err
	}
	outcome := Outcome{Memorized: found.Memorized, Of: found.Of, Sequences: p.Sequences, Lowest: found.Lowest}
	return audits.PutSummary(ctx, t, outcome, outcomes, Metrics{found.Memorized, highest})
}

// sumTallies adds up the counts of all parts, by canary, and says among how many sequences
// each was ranked. The parts of a group enumerate its sequences in turn.
func sumTallies(ctx context.Context, t *tasks.Task, p *SummaryParams, canaries int) (sums []Tally, sequences []int64, err error) {
	first := 0
	for _, g := range p.groups(canaries) {
		counted := make([]Tally, g.Canaries)
		for part := range g.Parts {
			tallies, err := audits.ReadPart[Tally](ctx, t, first+part, TalliesBlob, g.Canaries)
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
