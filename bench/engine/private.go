package engine

import (
	"context"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
)

// byteModel is the model of examples/secret-sharer-characters.yaml.
var byteModel = step{models.Config{
	Kind: models.LSTM, Vocabulary: 260, Embedding: 32, Units: 200, Layers: 2, Projection: models.Unprojected, Untied: true,
}, 80}

// clipNorm is so low that it clips almost all gradients.
const clipNorm = 0.1

// private takes the steps of training/dp-sgd, from a batch in memory.
type private struct {
	*learner
	rule  optimizers.Optimizer
	norms []float64
}

func (p *private) plain(batch [][]int32) error {
	if _, err := p.trainer.Gradient(p.params, batch, p.gradient); err != nil {
		return err
	}
	p.rule.Step(p.params, p.gradient, 1e-5)
	return nil
}

func (p *private) step(batch [][]int32) error {
	clip := func(norm float64) float64 { return privacy.ClipScale(norm, clipNorm) }
	if _, err := p.trainer.ClippedSum(p.params, batch, clip, p.gradient, p.norms); err != nil {
		return err
	}
	kernels.Scale(1/float32(len(batch)), p.gradient)
	privacy.AddGaussian(seeds.NewNormals(seeds.StreamKey(seed, seeds.Noise)), p.gradient, privacy.MeanNoise(1, clipNorm, len(batch)))
	p.rule.Step(p.params, p.gradient, 1e-5)
	return nil
}

// dearest is the maximum cost of a step of DP-SGD, in plain steps.
const dearest = 1.5

// measurePrivate compares whole steps: gradient, noise and RMSProp.
func (s step) measurePrivate(ctx context.Context, b *bench, r *Row) error {
	l, err := newLearner(s.config)
	if err != nil {
		return err
	}
	config, err := optimizers.Defaults(optimizers.RMSProp)
	if err != nil {
		return err
	}
	rule, err := optimizers.New(config, len(l.params))
	if err != nil {
		return err
	}
	batch := s.batch()
	p := private{l, rule, make([]float64, len(batch))}
	tokens := len(batch) * s.targets
	j := job{float64(tokens) * l.model.TrainingFLOPs(), tokens, func() error { return p.step(batch) }}
	if err := b.rates(ctx, r, j, func() error { return p.plain(batch) }); err != nil {
		return err
	}
	r.Ratio = 1 / r.Ratio
	r.goal(r.Ratio <= dearest, "at most 1.5 times")
	return nil
}
