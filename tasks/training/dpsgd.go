package training

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
)

// DPSGDParams are the parameters of training/dp-sgd. Local.Batch is the size of a step's batch, the
// expected size if it is random.
type DPSGDParams struct {
	SGDParams // Order is empty: the sampling chooses the examples of a step
	// Sampling is the sampling of a step's batch from all records.
	Sampling privacy.Sampling `json:"sampling"`
	// Clip bounds the L2 norm of each record's gradient over all tensors together.
	Clip float64 `json:"clip"`
	// NoiseMultiplier z adds Gaussian noise of standard deviation z*Clip to the sum of the
	// gradients, or z*Clip/Batch to their mean.
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	// Secret, if set, draws batches and noise instead of Seed.
	Secret *tasks.Secret `json:"secret,omitempty"`
	// Guarantee accounts for the noise; nil without noise.
	Guarantee *Guarantee `json:"guarantee,omitempty"`
	// Canaries are the records with a vector of an audit as their gradient, and Watch follows the
	// noisy mean gradients along these vectors; nil without an audit.
	Canaries *canaries.Clients `json:"canaries,omitempty"`
	Watch    *canaries.Watch   `json:"watch,omitempty"`
	// Without lists records that add no gradient to their batch, because an audit leaves them out
	// of a replay.
	Without []int `json:"without,omitempty"`
}

// DPSGD takes a stretch of steps of differentially private central training (Abadi et al. 2016,
// algorithm 1): each step draws its batch, clips the gradient of every record in it, adds them up,
// divides by the (expected) size of a batch, adds noise, and takes a step of the optimizer. An
// empty batch still gets noise. Steps beyond the budget of the Guarantee are not taken.
var DPSGD = tasks.Kind{Name: "training/dp-sgd", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runDPSGD)}

func runDPSGD(ctx context.Context, t *tasks.Task, p *DPSGDParams) error {
	s, err := openStretch(ctx, t, &p.SGDParams, p.Clip)
	if err != nil {
		return err
	}
	defer s.close()
	d := private{stretch: s, params: p}
	if err := d.open(ctx, t); err != nil {
		return err
	}
	end := max(s.first, d.account.Allowed(s.end))
	if err := s.run(t, end, func(step int) (models.Loss, error) { return d.step(ctx, t, step) }); err != nil {
		return err
	}
	if err := d.watched.Write(ctx, t); err != nil {
		return err
	}
	return s.write(ctx, t, d.row(end < s.end))
}

// private is a stretch of private steps.
type private struct {
	*stretch
	params  *DPSGDParams
	trainer models.Clipping
	account *Ledger
	batch   [][]int32
	sent    map[int]float64 // by canary in the batch
	vector  []float32       // of one canary
	watched *canaries.Following
	norms   []float64 // norms of the batch's gradients before clipping
	all     []float32 // norms of the stretch
	normSum float64
	clipped int
}

func (d *private) open(ctx context.Context, t *tasks.Task) (err error) {
	p, records := d.params, d.population.Records()
	clipping, ok := d.learner.trainer.(models.Clipping)
	if !ok {
		return tasks.Permanent(fmt.Errorf("training.privacy with sgd clips the gradient of every record, which a model of kind %s cannot; expected one of %v", d.model.Network.Config().Kind, models.Kinds()))
	}
	d.trainer = clipping
	if _, err := p.scheme(records); err != nil {
		return err
	}
	if d.watched, err = p.Watch.Open(ctx, t, p.Seed, d.first == 0); err != nil || p.Guarantee == nil {
		return err
	}
	key, err := t.Input(PopulationInput)
	if err != nil {
		return err
	}
	d.account, err = OpenLedger(t, key, p.Guarantee, privacy.Recipe{
		Population: records, Cohort: p.Local.Batch, NoiseMultiplier: p.NoiseMultiplier, Unit: privacy.RecordUnit,
	})
	return err
}

// step takes one step, counted from 0. The first step has the batch and the noise of number 1, like
// the first round.
func (d *private) step(ctx context.Context, t *tasks.Task, step int) (models.Loss, error) {
	if err := d.draw(ctx, t, step+1); err != nil {
		return models.Loss{}, err
	}
	p, l := d.params, d.learner
	if err := l.drop(p.Seed, uint64(step)); err != nil {
		return models.Loss{}, err
	}
	loss, err := d.trainer.ClippedSum(l.params, d.batch, d.factor, l.gradient, d.norms)
	if err != nil {
		return loss, d.failed(err, step)
	}
	others := d.watched.Products(l.gradient)
	if err := d.addCanaries(); err != nil {
		return loss, err
	}
	kernels.Scale(1/float32(p.Local.Batch), l.gradient)
	if p.NoiseMultiplier > 0 {
		normals, err := t.Normals(p.Seed, p.Secret, seeds.Noise, uint64(step+1))
		if err != nil {
			return loss, err
		}
		privacy.AddGaussian(normals, l.gradient, p.noiseDeviation())
	}
	d.watched.Observe(l.gradient, others, d.sent)
	rate := p.Local.Rate(step)
	l.decayWeights(rate)
	l.rule.Step(l.params, l.gradient, rate)
	return loss, nil
}

// draw reads the batch of a step, counted from 1.
func (d *private) draw(ctx context.Context, t *tasks.Task, number int) error {
	records, err := d.params.Records(number, d.population.Records(), func(number int) (*rand.Rand, error) {
		return t.Stream(d.params.Seed, d.params.Secret, seeds.Cohort, uint64(number))
	})
	if err != nil {
		return err
	}
	d.batch, d.sent = d.batch[:0], map[int]float64{}
	for _, i := range records {
		if canary, ok := d.params.Canaries.Canary(i, d.population.Records()); ok {
			d.sent[canary] = 0
			continue
		}
		if slices.Contains(d.params.Without, i) {
			continue
		}
		record, err := d.population.ReadRecord(ctx, i)
		if err != nil {
			return err
		}
		d.batch = append(d.batch, record)
	}
	d.norms = append(d.norms[:0], make([]float64, len(d.batch))...)
	d.records += int64(len(records))
	return ctx.Err()
}

// addCanaries adds the clipped gradients of the batch's canaries to the sum.
func (d *private) addCanaries() error {
	for _, canary := range slices.Sorted(maps.Keys(d.sent)) {
		length, err := d.params.Canaries.Length(d.params.Clip)
		if err != nil {
			return err
		}
		if d.vector == nil {
			d.vector = make([]float32, len(d.learner.gradient))
		}
		if d.params.Canaries.Update(d.params.Seed, d.vector, canary, length) {
			kernels.Axpy(float32(d.factor(length)), d.vector, d.learner.gradient)
		}
	}
	return nil
}

// Records returns the records of a step's batch in ascending order, out of records. Steps count
// from 1.
func (p *DPSGDParams) Records(step, records int, stream func(step int) (*rand.Rand, error)) ([]int, error) {
	scheme, err := p.scheme(records)
	if err != nil {
		return nil, err
	}
	return scheme.Draw(privacy.Round{Number: step, Population: records, Cohort: p.Local.Batch, Stream: stream})
}

// scheme returns the sampling of batches from a number of records.
func (p *DPSGDParams) scheme(records int) (privacy.Scheme, error) {
	if p.Local.Batch > records {
		return privacy.Scheme{}, tasks.Permanent(fmt.Errorf("the batch of %d is above the %d records: lower training.cohort", p.Local.Batch, records))
	}
	return drawnScheme(p.Sampling)
}

// factor returns the clip factor of a record's gradient with the given norm, and counts it.
func (d *private) factor(norm float64) float64 {
	scale := privacy.ClipScale(norm, d.params.Clip)
	d.all, d.normSum = append(d.all, float32(norm)), d.normSum+norm
	if scale < 1 {
		d.clipped++
	}
	return scale
}

// noiseDeviation returns the standard deviation of the noise on the mean gradient.
func (p *DPSGDParams) noiseDeviation() float64 {
	return privacy.MeanNoise(p.NoiseMultiplier, p.Clip, p.Local.Batch)
}

func (d *private) row(stopped bool) checkpoints.Row {
	row := d.stretch.row()
	row.NoiseDeviation, row.Clip, row.Stopped = d.params.noiseDeviation(), d.params.Clip, stopped
	row.Norms = checkpoints.QuantilesOf(d.all)
	if n := float64(len(d.all)); n > 0 {
		row.ClientNorm, row.Clipped = d.normSum/n, float64(d.clipped)/n
	}
	d.account.Charge(&row)
	return row
}
