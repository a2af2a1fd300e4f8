// Package randomsampling ranks canaries among random sequences that were never
// inserted (Carlini et al. 2019, section 4; Thakkar et al. 2020, section 4.1):
//
//	audits/random-sampling          the ranks of some canaries under one checkpoint
//	audits/random-sampling-summary  the ranks of all canaries, and the outcome
package randomsampling

import (
	"context"
	"math"
	"slices"

	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/canaries"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	Seed       uint64 `json:"seed"`
	References int    `json:"references"`
	canaries.Space
	Prefix int `json:"prefix"`
	// Exact ranks every canary among all references.
	Exact bool `json:"exact,omitempty"`
	// First and Count select the canaries of this task.
	First int `json:"first"`
	Count int `json:"count"`
	// Program, if set, scores instead of Coalmine. The task then needs external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
}

func (p Params) UsesProgram() *clientprograms.Program { return p.Program }

// Rank is the rank of one canary.
type Rank struct {
	// LogPerplexity is the canary's log-perplexity after its prefix, in nats.
	LogPerplexity float64 `json:"log_perplexity"`
	// Rank is 1 + the references with a log-perplexity of at most the canary's; 1 means memorized.
	Rank int64 `json:"rank"`
	// Exact reports whether Rank was counted rather than estimated from a pilot. A rank of 1 is always exact.
	Exact bool `json:"exact"`
	// ExposureError is the standard error of the exposure in bits; 0 if Exact.
	ExposureError float64 `json:"exposure_error,omitempty"`
}

// Kind ranks canaries. Inputs: the checkpoint and the canaries.
var Kind = tasks.Kind{Name: "audits/random-sampling", Version: 2, Class: tasks.Compute, Run: audits.Finds(RanksBlob, rank)}

// RanksBlob is a JSON array with a Rank for each canary.
const RanksBlob = "ranks"

func rank(ctx context.Context, t *tasks.Task, p *Params) ([]Rank, error) {
	switch {
	case p.Program != nil:
		return rankByProgram(ctx, t, p)
	case p.Echoes():
		return rankPairs(ctx, t, p)
	}
	s, err := Open(ctx, t, p)
	if err != nil {
		return nil, err
	}
	ranks := make([]Rank, p.Count)
	for i := range ranks {
		if ranks[i], err = s.Rank(ctx, p.First+i); err != nil {
			return nil, err
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(p.Count), Tokens: s.Work().Advanced})
	}
	return ranks, nil
}

// Costs per reference, relative to scoring all of its words but the last in full: measured on the paper's
// model and 90 canaries, of which a third are memorized and half ranked among all references.
const (
	middleShare = 0.13  // mean over all canaries
	prunedShare = 0.012 // mean over canaries without an estimate by a pilot
	// prunedCanaries is the share of the latter.
	prunedCanaries = 0.5
)

// expectedStates returns the expected work of ranking a canary, as a number of states advanced and scored in
// full.
func expectedStates(references, length int, exact bool) float64 {
	all := float64(references) * float64(max(1, length-1))
	pilot := pilotSizes[0]
	if exact || references <= pilot {
		return middleShare * all
	}
	return middleShare*all*float64(pilot)/float64(references) + prunedShare*prunedCanaries*all
}

// Sampling ranks canaries under one model. It is not safe for concurrent use.
type Sampling struct {
	canaries []population.Placement
	prefix   int
	sets     []*References // the pilots in use, and last the whole set
	ranker   *ranker
}

// Open reads the inputs of a task of Kind. All tasks of a worker share the references.
func Open(ctx context.Context, t *tasks.Task, p *Params) (*Sampling, error) {
	placed, err := population.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return nil, err
	}
	tables, err := audits.ReadTables(ctx, t)
	if err != nil {
		return nil, err
	}
	ordinary := tables.Scorer().Model().Config().Vocabulary - text.FirstWord
	sets, err := readReferences(ctx, t, p, ordinary, placed)
	if err != nil {
		return nil, err
	}
	return newSampling(p, placed, tables, sets, t.Cores()), nil
}

// newSampling takes sets in the form returned by References.nested.
func newSampling(p *Params, placed []population.Placement, tables *models.Tables, sets []*References, cores *goroutines.Cores) *Sampling {
	if p.Exact {
		sets = sets[len(sets)-1:]
	}
	return &Sampling{canaries: placed, prefix: p.Prefix, sets: sets, ranker: newRanker(tables, sets[0].length, cores)}
}

// Work returns the work so far.
func (s *Sampling) Work() (sum models.Work) {
	for w := range s.ranker.used {
		sum.Add(w.tree.Work())
	}
	return sum
}

// Rank ranks a canary, by its number, among the references.
func (s *Sampling) Rank(ctx context.Context, canary int) (Rank, error) {
	words := s.canaries[canary].Tokens
	tree := s.ranker.walker(0).tree
	state, err := audits.PrefixState(tree.Scorer(), words[:s.prefix])
	if err != nil {
		return Rank{}, err
	}
	cost, err := audits.LogPerplexity(ctx, tree, state, words[s.prefix:])
	if err != nil {
		return Rank{}, err
	}
	return s.place(ctx, state, cost)
}

// place finds the rank of a cost: estimated from the smallest pilot that has enough hits, otherwise counted
// among all references. Each set includes the smaller ones, so skipping sets does not change the result.
func (s *Sampling) place(ctx context.Context, state *models.States, cost float64) (Rank, error) {
	last := len(s.sets) - 1
	all := s.sets[last]
	bounds, err := newDepthBounds(s.ranker.tables, state, all)
	if err != nil {
		return Rank{}, err
	}
	for walked := 0; ; {
		n, err := s.ranker.count(ctx, s.sets[walked], bounds, cost)
		if err != nil {
			return Rank{}, err
		}
		for _, pilot := range s.sets[:min(walked+1, last)] {
			if hits := s.ranker.foundWithin(pilot.Count()); hits >= minPilotHits {
				return estimated(cost, hits, pilot.Count(), all.Count()), nil
			}
		}
		if walked == last {
			return Rank{LogPerplexity: cost, Rank: 1 + n, Exact: true}, nil
		}
		walked = s.after(walked, n)
	}
}

// after returns the set to walk after a pilot with too few hits: the next set that is expected to have half
// of the required hits, or all references.
func (s *Sampling) after(walked int, hits int64) int {
	share := float64(hits) / float64(s.sets[walked].Count())
	for next := walked + 1; next < len(s.sets)-1; next++ {
		if share*float64(s.sets[next].Count()) >= minPilotHits/2 {
			return next
		}
	}
	return len(s.sets) - 1
}

func estimated(cost float64, hits int64, pilot, all int) Rank {
	rank, deviation := estimate(hits, pilot, all)
	return Rank{LogPerplexity: cost, Rank: rank, ExposureError: deviation}
}

// estimate returns the rank that the hits in a pilot suggest, and the standard error of the exposure
// in bits.
func estimate(hits int64, pilot, all int) (rank int64, deviation float64) {
	share := float64(hits) / float64(pilot)
	return int64(1 + math.Round(share*float64(all))), 1 / (math.Ln2 * math.Sqrt(float64(hits)))
}

// Exposure returns the exposure in bits, with the references in place of the whole space.
func (r Rank) Exposure(references int) float64 { return exposure.Of(int64(references), r.Rank) }

// RankAmong ranks a sequence after a prefix among the given references, at least one, each of the sequence's
// length. Large ranks are estimated as by Rank.
func RankAmong(ctx context.Context, tables *models.Tables, prefix, sequence []int32, references [][]int32) (Rank, error) {
	all := &References{length: len(sequence), tokens: slices.Concat(references...)}
	whole := population.Placement{Canary: population.Canary{Tokens: slices.Concat(prefix, sequence)}}
	s := newSampling(&Params{Prefix: len(prefix)}, []population.Placement{whole}, tables, all.nested(), nil)
	return s.Rank(ctx, 0)
}

type SummaryParams struct {
	Parts      int `json:"parts"`
	References int `json:"references"`
}

// Summary joins the ranks of all canaries of one checkpoint.
var Summary = tasks.Kind{Name: "audits/random-sampling-summary", Version: 1, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	ranks, err := audits.ReadParts[Rank](ctx, t, RanksBlob, len(placed), audits.PartInputs(p.Parts)...)
	if err != nil {
		return nil, nil, err
	}
	outcomes := lists.Map(ranks, func(r Rank) CanaryOutcome { return r.CanaryOutcome(p.References) })
	found, err := audits.Count(placed, func(canary int) bool { return ranks[canary].Rank == 1 })
	return &Outcome{Memorized: found.Memorized, Of: found.Of, References: p.References, Lowest: found.Lowest}, outcomes, err
}
