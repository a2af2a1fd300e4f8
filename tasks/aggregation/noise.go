package aggregation

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// addNoise adds the noise of the round to the mean update.
func (p *ServerParams) addNoise(ctx context.Context, t *tasks.Task, mean []float32) error {
	switch {
	case p.NoiseMultiplier == 0 || p.NoiseBy == privacy.ByDevices || p.Control == privacy.NoNoise:
		return nil
	case p.Mechanism != nil:
		return p.addCorrelated(ctx, t, mean)
	}
	normals, err := t.Normals(p.Seed, p.Secret, seeds.Noise, uint64(t.Step))
	if err != nil {
		return err
	}
	privacy.AddGaussian(normals, mean, p.noiseDeviation())
	return nil
}

// addCorrelated adds noise that subtracts part of the noise of earlier rounds, and stores the state
// for the next round.
func (p *ServerParams) addCorrelated(ctx context.Context, t *tasks.Task, mean []float32) error {
	strategy, err := p.Mechanism.Strategy()
	if err != nil {
		return tasks.Permanent(err)
	}
	buffers, err := checkpoints.ReadNoise(ctx, t)
	if err != nil {
		return err
	}
	noise, next, err := strategy.Noise(t.Step, buffers, p.independent(t, len(mean)))
	if err != nil {
		return fmt.Errorf("noise of round %d: %w", t.Step, err)
	}
	deviation := p.noiseDeviation()
	for i, v := range noise {
		mean[i] = float32(float64(mean[i]) + float64(deviation*v))
	}
	return checkpoints.WriteNoise(ctx, t, next)
}

// independent draws the underlying noise of correlated noise. The first stream of a round is the
// stream of uncorrelated noise.
func (p *ServerParams) independent(t *tasks.Task, n int) correlated.Independent {
	return func(stream uint64) ([]float64, error) {
		indices := []uint64{uint64(t.Step)}
		if stream > 0 {
			indices = append(indices, stream)
		}
		normals, err := t.Normals(p.Seed, p.Secret, seeds.Noise, indices...)
		if err != nil {
			return nil, err
		}
		noise := make([]float64, n)
		normals.Draw(noise)
		return noise, nil
	}
}

// keepBuffers stores the buffers of the noise unchanged.
func (p *ServerParams) keepBuffers(ctx context.Context, t *tasks.Task) error {
	if p.Mechanism == nil {
		return nil
	}
	buffers, err := checkpoints.ReadNoise(ctx, t)
	if err != nil {
		return err
	}
	return checkpoints.WriteNoise(ctx, t, buffers)
}
