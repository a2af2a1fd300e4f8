package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/tasks/audits/membership/membership"
)

// subject returns a model to audit, or nil and the reason. The first call makes all models, which takes
// a minute or two.
func (b *bench) subject(ctx context.Context, r *Row, name string) (*Subject, error) {
	if b.subjects == nil {
		var err error
		b.subjects, err = Subjects(ctx, b.Text)
		if errors.Is(err, fs.ErrNotExist) {
			r.Skipped = noText(b.Text)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range b.subjects {
		if b.subjects[i].Name == name {
			return &b.subjects[i], nil
		}
	}
	return nil, fmt.Errorf("no %s model to audit", name)
}

// wholeSequences is the number of sequences scored together.
const wholeSequences = 480

// measureWholeScoring measures the kernels' rate without savings; the row scoring shows the savings of
// bounds and sharing.
func measureWholeScoring(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(paper.config)
	if err != nil {
		return err
	}
	rng, words := seeds.Stream(seed, seeds.References), make([]int32, wholeSequences)
	for i := range words {
		words[i] = int32(rng.IntN(paper.config.Vocabulary))
	}
	states, logProbs := scorer.Start(wholeSequences), make([]float32, wholeSequences)
	err = b.rates(ctx, r, job{flops: wholeSequences * scorer.Model().ScoringFLOPs(), tokens: wholeSequences, run: func() error {
		if err := scorer.Step(states, words); err != nil {
			return err
		}
		return scorer.LogProbs(states, words, logProbs)
	}}, nil)
	r.goal(r.OfPeak >= 0.8, "80% of peak")
	return err
}

// measureTokenScores compares scoring for all membership attacks at once with computing only the losses.
func (s step) measureTokenScores(ctx context.Context, b *bench, r *Row) error {
	scorer, err := newScorer(s.config)
	if err != nil {
		return err
	}
	rng := seeds.Stream(seed, seeds.References)
	user := make([][]int32, 40) // sentences of 20 targets
	for i := range user {
		for range 21 {
			user[i] = append(user[i], int32(rng.IntN(s.config.Vocabulary)))
		}
	}
	tokens := 20 * len(user)
	alone := func() error { _, err := scorer.Losses(user); return err }
	all := func() error {
		scores, err := scorer.TokenScores(user)
		membership.LossOf(slices.Concat(scores...))
		return err
	}
	err = b.rates(ctx, r, job{flops: float64(tokens) * scorer.Model().ScoringFLOPs(), tokens: tokens, run: alone}, all)
	r.goal(r.Ratio <= 1.3, "at most 1.3 times the losses")
	return err
}

func measureScoring(ctx context.Context, b *bench, r *Row) error {
	s, err := b.subject(ctx, r, "untrained")
	if s == nil {
		return err
	}
	peak := kernels.PeakGFLOPS(peakTime)
	t, err := Rank(ctx, s, 0, References)
	if err != nil {
		return err
	}
	peak = (peak + kernels.PeakGFLOPS(peakTime)) / 2
	r.GFLOPS, r.OfPeak, r.Seconds = t.GFLOPS, t.GFLOPS/peak, t.Seconds
	r.SequencesPerSecond, r.BruteForceGFLOPS = t.SequencesPerSecond, t.BruteForceGFLOPS
	r.Ratio = t.BruteForceGFLOPS / peak
	r.goal(r.OfPeak >= 0.8, "80% of peak")
	return nil
}

// auditSeconds is the goal for a whole audit.
const auditSeconds = 180

func measureAudit(name string) measure {
	return func(ctx context.Context, b *bench, r *Row) error {
		s, err := b.subject(ctx, r, name)
		if s == nil {
			return err
		}
		t, err := Audit(ctx, s, runtime.GOMAXPROCS(0), References)
		if err != nil {
			return err
		}
		r.Seconds = t.Seconds
		r.SequencesPerSecond = float64(t.Canaries) * float64(t.References) / t.Seconds
		r.goal(t.Seconds < auditSeconds, "under 3 minutes")
		return nil
	}
}
