package aggregation

import (
	"context"
	"fmt"

	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// Range of an adaptive clip norm. Beyond it the clip norm no longer follows the quantile: the
// learning rate or the noise on the count is too large.
const (
	minClip = 1e-12
	maxClip = 1e12
)

// adapt replaces the clip norm of the first round by that of this round, and the total noise
// multiplier by that of the updates. The privacy account counts the total, so it is opened before.
func (p *ServerParams) adapt(ctx context.Context, t *tasks.Task) (err error) {
	if p.Adaptive == nil {
		return nil
	}
	if p.Clip, err = checkpoints.ReadClip(ctx, t, p.Clip); err != nil {
		return err
	}
	p.NoiseMultiplier, err = p.Adaptive.UpdateNoise(p.NoiseMultiplier)
	return tasks.Permanent(err)
}

// moveClip chooses the clip norm of the next round (Andrew et al. 2021,
// algorithm 1), from the noisy share of the clients that were not clipped. Without noise on the
// updates, the count has no noise either.
func (r *round) moveClip(ctx context.Context, t *tasks.Task) error {
	p := r.params
	if p.Adaptive == nil {
		return nil
	}
	noise := 0.0
	if p.NoiseMultiplier > 0 {
		rng, err := t.Stream(p.Seed, p.Secret, seeds.ClipCount, uint64(t.Step))
		if err != nil {
			return err
		}
		noise = rng.NormFloat64()
	}
	below := r.chunks.Clients - r.chunks.Clipped
	next := p.Adaptive.Next(p.Clip, int(below), int(r.chunks.Clients), noise, p.Cohort)
	if !(next >= minClip && next <= maxClip) {
		return tasks.Permanent(fmt.Errorf("round %d: the adaptive clip norm went from %g to %g; expected %g to %g: lower training.privacy.adaptive.learning_rate or count_noise",
			t.Step, p.Clip, next, minClip, maxClip))
	}
	return checkpoints.WriteClip(ctx, t, next)
}
