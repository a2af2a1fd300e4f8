package engine

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/models"
	"coalmine/tasks/audits"
	drawing "coalmine/tasks/audits/models/samples"
	"coalmine/tasks/datasets"
)

// Number and words of the sentences that the row draws, and its time limit.
const (
	sentences       = 100_000
	sentenceWords   = 10
	sentenceSeconds = 300
)

// measureSampling draws sentences from the untrained model, which begins few of them alike
// and rarely ends one: only the first word is shared.
func measureSampling(ctx context.Context, _ *bench, r *Row) error {
	scorer, err := newScorer(paper.config)
	if err != nil {
		return err
	}
	draw := models.Draw{Sampling: models.Sampling{Temperature: 1}, Prefix: []int32{datasets.Begin}, End: datasets.End, AtMost: sentenceWords}
	var words atomic.Int64
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, span := range audits.Split(sentences, drawing.Together) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			drawn, err := drawing.Draw(scorer, draw, seed, span.First, span.Count)
			for _, s := range drawn {
				words.Add(int64(len(s.Tokens)))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.Seconds = time.Since(start).Seconds()
	r.TokensPerSecond = float64(words.Load()) / r.Seconds
	r.goal(r.Seconds < sentenceSeconds, "under 5 minutes")
	return nil
}
