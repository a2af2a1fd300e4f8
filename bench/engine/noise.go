package engine

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// noiseExperiment trains twice: the noise of the second training is correlated by four buffers.
// Users and cohorts are the same, and all updates are clipped in both.
const noiseExperiment = `
name: bench-noise
data: {source: synthetic, vocabulary: {size: %d}, users: {words: 304}}
model: {kind: cifg-lstm, embedding: %d, units: %d}
training:
  rounds: %d
  cohort: %d
  chunks: 1
  sampling: separated
  client: {batch: 16, learning_rate: 1}
  privacy: {clip: 1, delta: 1e-5}
grid:
  axes:
    training.privacy:
      - {}
      - {noise_multiplier: 1, mechanism: {kind: blt, buffers: 4, scales: [0.02, 0.06, 0.1, 0.2], decays: [0.999, 0.98, 0.9, 0.4]}}
`

// maxNoise is the maximum share of a round for noise.
const maxNoise = 0.1

// The vocabulary has four tokens that are not words.
const specialTokens = 4

// measureNoise measures the share of a round that correlated noise takes: the additional time
// of the server's task, including reading and encoding of the buffers, relative to all tasks of
// the round. It excludes the time of the store.
func (s step) measureNoise(cohort int) measure {
	return func(ctx context.Context, b *bench, r *Row) error {
		file := fmt.Sprintf(noiseExperiment, s.config.Vocabulary-specialTokens, s.config.Embedding, s.config.Units, warmRounds+b.Repeat, cohort)
		plain, noisy, err := timeTrainings(ctx, file)
		if err != nil {
			return err
		}
		var shares []float64
		for i := warmRounds; i < len(noisy); i++ {
			shares = append(shares, (noisy[i].server-plain[i].server)/(noisy[i].clients+noisy[i].server))
		}
		r.Share = median(shares)
		r.goal(r.Share <= maxNoise, fmt.Sprintf("at most %.0f%%", 100*maxNoise))
		return nil
	}
}

// timeTrainings times the rounds of both trainings.
func timeTrainings(ctx context.Context, file string) (plain, noisy []roundTime, err error) {
	text := memoryText()
	s, err := submission.PrepareFile(ctx, "bench", []byte(file), experiment.Options{}, sources.Text(text), nil)
	if err != nil {
		return nil, nil, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = timeRounds(ctx, p, p.Cells[0].Chain, text); err != nil {
		return nil, nil, err
	}
	noisy, err = timeRounds(ctx, p, p.Cells[1].Chain, text)
	return plain, noisy, err
}

// warmRounds is the number of uncounted first rounds.
const warmRounds = 2

// roundTime is the duration of a round's tasks, in thread seconds.
type roundTime struct{ clients, server float64 }

func timeRounds(ctx context.Context, p *plan.Plan, c *plan.Chain, text []byte) ([]roundTime, error) {
	times := make([]roundTime, c.Steps)
	kinds := compile.Registry()
	time := func(kind tasks.Kind, add func(round *roundTime, seconds float64)) {
		run := kind.Run
		kind.Run = func(ctx context.Context, t *tasks.Task) error {
			seconds, err := timed(func() error { return run(ctx, t) })
			add(&times[t.Step-1], seconds)
			return err
		}
		kinds[kind.Name] = kind
	}
	time(training.Clients, func(r *roundTime, s float64) { r.clients += s })
	time(aggregation.Server, func(r *roundTime, s float64) { r.server += s })
	return times, localexec.New(p, kinds, text).Reach(ctx, c.At(c.Steps))
}
