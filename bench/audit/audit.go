package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
)

// References is how many references an audit ranks its canaries among: the
// papers' number.
const References = 2_000_000

const (
	seed   = 1
	prefix = 1 // words of a canary that are given
)

// RankTiming is the exact rank of one canary, on one core.
type RankTiming struct {
	Subject    string      `json:"subject"`
	Canary     int         `json:"canary"`
	References int         `json:"references"`
	Rank       audits.Rank `json:"rank"`
	Seconds    float64     `json:"seconds"`
	// Advanced counts the states that were scored; Exact and Bounded those whose
	// normaliser was computed, or bounded; LookedAhead those that were bounded before
	// their output was known, and advanced only if the bound did not prune them.
	Advanced    int64 `json:"advanced"`
	Exact       int64 `json:"exact"`
	Bounded     int64 `json:"bounded"`
	LookedAhead int64 `json:"foreseen"`
	// GFLOP is the work of the matrix products, GFLOPS their rate over all of the
	// time.
	GFLOP  float64 `json:"gflop"`
	GFLOPS float64 `json:"gflops"`
	// SequencesPerSecond and BruteForceGFLOPS are what scoring every word of every
	// reference would need to be as fast.
	SequencesPerSecond float64 `json:"sequences_per_second"`
	BruteForceGFLOPS   float64 `json:"brute_force_gflops"`
}

// Rank times the exact rank of a canary of the subject. The references and the
// model's tables are made before the clock starts.
func Rank(ctx context.Context, s *Subject, canary, references int) (*RankTiming, error) {
	list, err := s.placements()
	if err != nil {
		return nil, err
	}
	if canary < 0 || canary >= len(list) {
		return nil, fmt.Errorf("canary %d of the %s model: it has %d, counted from 0", canary, s.Name, len(list))
	}
	p := s.params(list, references)
	p.Exact = true
	task, err := newBench(s).task(p, new(ranks))
	if err != nil {
		return nil, err
	}
	sampling, err := audits.OpenSampling(ctx, task, &p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	rank, err := sampling.Rank(ctx, canary)
	if err != nil {
		return nil, err
	}
	t := &RankTiming{Subject: s.Name, Canary: canary, References: references, Rank: rank, Seconds: time.Since(start).Seconds()}
	return t, t.count(s, &p, sampling.Work())
}

// count fills in the work and the rates.
func (t *RankTiming) count(s *Subject, p *audits.RandomSamplingParams, w models.Work) error {
	model, err := checkpoints.Decode(s.Model)
	if err != nil {
		return err
	}
	t.Advanced, t.Exact, t.Bounded, t.LookedAhead = w.Advanced, w.Exact, w.Bounded, w.LookedAhead
	t.GFLOP = w.FLOPs / 1e9
	t.GFLOPS = t.GFLOP / t.Seconds
	t.SequencesPerSecond = float64(t.References) / t.Seconds
	t.BruteForceGFLOPS = t.SequencesPerSecond * float64(p.Words-p.Prefix) * model.Language.ScoringFLOPs() / 1e9
	return nil
}

// AuditTiming is the random sampling of a whole audit.
type AuditTiming struct {
	Subject    string  `json:"subject"`
	Workers    int     `json:"workers"`
	Canaries   int     `json:"canaries"`
	References int     `json:"references"`
	Seconds    float64 `json:"seconds"`
	// Memorized canaries have rank 1; Exact ranks are counted, the others estimated.
	Memorized int `json:"memorized"`
	Exact     int `json:"exact"`
	// Ranks of the canaries, in their order.
	Ranks []audits.Rank `json:"-"`
}

// Audit times the random sampling of all canaries of the subject, divided into
// tasks as in a run, from nothing, on so many goroutines.
func Audit(ctx context.Context, s *Subject, workers, references int) (*AuditTiming, error) {
	list, err := s.placements()
	if err != nil {
		return nil, err
	}
	t := &AuditTiming{Subject: s.Name, Workers: workers, Canaries: len(list), References: references}
	start := time.Now()
	if t.Ranks, err = s.rankAll(ctx, workers, s.params(list, references)); err != nil {
		return nil, err
	}
	t.Seconds = time.Since(start).Seconds()
	for _, r := range t.Ranks {
		if r.Rank == 1 {
			t.Memorized++
		}
		if r.Exact {
			t.Exact++
		}
	}
	return t, nil
}

// rankAll runs the tasks that rank the canaries of whole.
func (s *Subject) rankAll(ctx context.Context, workers int, whole audits.RandomSamplingParams) ([]audits.Rank, error) {
	b, all := newBench(s), make([]audits.Rank, whole.Count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for first := 0; first < whole.Count; first += compile.SamplingCanaries {
		group.Go(func() error {
			p := whole
			p.First, p.Count = first, min(compile.SamplingCanaries, whole.Count-first)
			part, err := b.run(ctx, p)
			copy(all[first:], part)
			return err
		})
	}
	return all, group.Wait()
}

func (s *Subject) placements() ([]datasets.Placement, error) {
	var list []datasets.Placement
	if err := json.Unmarshal(s.Canaries, &list); err != nil {
		return nil, fmt.Errorf("canaries of the %s model: %w", s.Name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the %s model has no canaries", s.Name)
	}
	return list, nil
}

// params are those of a task that ranks all canaries.
func (s *Subject) params(list []datasets.Placement, references int) audits.RandomSamplingParams {
	return audits.RandomSamplingParams{Seed: seed, References: references, Space: canaries.Space{Words: len(list[0].Tokens)}, Prefix: prefix, Count: len(list)}
}
