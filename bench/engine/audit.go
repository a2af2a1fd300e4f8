package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
)

// References is the number of references among which an audit ranks its canaries, as in the papers.
const References = 2_000_000

const (
	auditSeed = 1
	prefix    = 1 // given words of a canary
)

// RankTiming is the exact rank of one canary, on one core.
type RankTiming struct {
	Rank    randomsampling.Rank
	Seconds float64
	// Work counts the operations of the tree scorer. GFLOPS is the rate of its matrix
	// products over the total time.
	Work   models.Work
	GFLOPS float64
	// SequencesPerSecond and BruteForceGFLOPS are the rates that scoring every
	// word of every reference would need for the same time.
	SequencesPerSecond float64
	BruteForceGFLOPS   float64
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
	b := newBench(s)
	spec, err := b.spec(p)
	if err != nil {
		return nil, err
	}
	sampling, err := randomsampling.Open(ctx, b.runner.Task(spec, nil), &p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	rank, err := sampling.Rank(ctx, canary)
	if err != nil {
		return nil, err
	}
	t := &RankTiming{Rank: rank, Seconds: time.Since(start).Seconds(), Work: sampling.Work()}
	return t, t.rates(s, &p)
}

func (t *RankTiming) rates(s *Subject, p *randomsampling.Params) error {
	model, err := checkpoints.Decode(s.Model)
	if err != nil {
		return err
	}
	language, err := models.LanguageOf(model.Network)
	if err != nil {
		return err
	}
	t.GFLOPS = t.Work.FLOPs / 1e9 / t.Seconds
	t.SequencesPerSecond = float64(p.References) / t.Seconds
	t.BruteForceGFLOPS = t.SequencesPerSecond * float64(p.Words-p.Prefix) * language.ScoringFLOPs() / 1e9
	return nil
}

// Timing is the random sampling of a whole audit.
type Timing struct {
	Canaries   int
	References int
	Seconds    float64
	// Ranks of the canaries, in order.
	Ranks []randomsampling.Rank
}

// Audit times the random sampling of all canaries of the subject, divided into tasks
// as in a run, without cached work, on the given number of goroutines.
func Audit(ctx context.Context, s *Subject, workers, references int) (*Timing, error) {
	list, err := s.placements()
	if err != nil {
		return nil, err
	}
	t := &Timing{Canaries: len(list), References: references}
	start := time.Now()
	if t.Ranks, err = s.rankAll(ctx, workers, s.params(list, references)); err != nil {
		return nil, err
	}
	t.Seconds = time.Since(start).Seconds()
	return t, nil
}

func (s *Subject) rankAll(ctx context.Context, workers int, whole randomsampling.Params) ([]randomsampling.Rank, error) {
	b, all := newBench(s), make([]randomsampling.Rank, whole.Count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for first := 0; first < whole.Count; first += randomsampling.CanariesATask {
		group.Go(func() error {
			p := whole
			p.First, p.Count = first, min(randomsampling.CanariesATask, whole.Count-first)
			part, err := b.run(ctx, p)
			copy(all[first:], part)
			return err
		})
	}
	return all, group.Wait()
}

// auditBench runs the tasks of one audit in memory.
type auditBench struct {
	runner      *tasks.Runner
	model, list storage.Key
}

func newBench(s *Subject) *auditBench {
	b := &auditBench{runner: tasks.NewRunner()}
	b.model = b.given(tasks.ModelBlob, s.Model)
	b.list = b.given(population.CanariesBlob, s.Canaries)
	return b
}

func (b *auditBench) given(blob string, data []byte) storage.Key {
	h := tasks.NewHasher("audit bench")
	h.String(string(data))
	n := &tasks.RunnerNode{Spec: tasks.Spec{Key: h.Sum()}, Blobs: map[string][]byte{blob: data}}
	b.runner.Give(n)
	return n.Key
}

func (b *auditBench) spec(p randomsampling.Params) (tasks.Spec, error) {
	return tasks.NewSpec(randomsampling.Kind, p,
		tasks.Input{Name: audits.ModelInput, Key: b.model}, tasks.Input{Name: audits.CanariesInput, Key: b.list})
}

func (b *auditBench) run(ctx context.Context, p randomsampling.Params) ([]randomsampling.Rank, error) {
	spec, err := b.spec(p)
	if err != nil {
		return nil, err
	}
	n, err := b.runner.Run(ctx, randomsampling.Kind, spec)
	if err != nil {
		return nil, err
	}
	var ranks []randomsampling.Rank
	return ranks, json.Unmarshal(n.Blobs[randomsampling.RanksBlob], &ranks)
}

func (s *Subject) placements() ([]population.Placement, error) {
	var list []population.Placement
	if err := json.Unmarshal(s.Canaries, &list); err != nil {
		return nil, fmt.Errorf("canaries of the %s model: %w", s.Name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the %s model has no canaries", s.Name)
	}
	return list, nil
}

// params returns the parameters of a task that ranks all canaries.
func (s *Subject) params(list []population.Placement, references int) randomsampling.Params {
	return randomsampling.Params{Seed: auditSeed, References: references, Space: canaries.Space{Words: len(list[0].Tokens)}, Prefix: prefix, Count: len(list)}
}
