// Package replaytest has small private trainings for tests of package replay: a right one, and one for
// each of the known kinds of faults.
//
// A member has some records of a token and a class. The model is an embedding and a softmax layer. A step
// clips the mean gradient of each member of the cohort over all tensors together, adds up, and adds noise.
package replaytest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
)

// Bug is a fault that a Program may have.
type Bug = string

// The bugs. None is a right training.
const (
	None                Bug = ""
	NoiseMissing        Bug = "noise is missing"
	NoiseDivided        Bug = "noise is divided by the cohort"
	NoiseBeforeClip     Bug = "noise is added before clipping"
	ClipPerTensor       Bug = "each tensor is clipped alone, accounted as one"
	ClipAfterMean       Bug = "the mean is clipped"
	MeanLoss            Bug = "the mean loss of a microbatch is clipped"
	ShuffledForPoisson  Bug = "Poisson is claimed, shuffling done"
	LastBatchSmaller    Bug = "the last batch is smaller, and the mean is over its own records"
	DataDependentMean   Bug = "the mean is divided by an expected batch that depends on the data"
	SameSeed            Bug = "noise has the same seed in every round"
	SharedNoise         Bug = "tensors share their noise"
	AccumulationOnce    Bug = "gradient accumulation clips the last microbatch only"
	BatchNorm           Bug = "batch normalization across records"
	MomentumBefore      Bug = "momentum before noise"
	EmbeddingUnclipped  Bug = "embeddings are not clipped"
	TwoChunks           Bug = "a user in two chunks is clipped twice"
	EvaluationLeaks     Bug = "evaluation data scale the gradient"
	NoiseOfRank         Bug = "one draw of noise for each pair of elements"
	EmbeddingWithout    Bug = "embeddings get no noise"
	SeedOfEpoch         Bug = "seeds of noise repeat every epoch"
	DataDependentNoise  Bug = "noise is scaled to the norms of the batch"
	DivisorOfCohort     Bug = "a Poisson sum is divided by the size of the cohort"
	SameCohort          Bug = "the first cohort takes part in every round"
	FixedSizeForPoisson Bug = "Poisson is claimed, cohorts have a fixed size"
	CohortsTwice        Bug = "each cohort takes part in two successive rounds"
	NoiseBroadcast      Bug = "one row of noise for all rows of a tensor"
	NoiseTiled          Bug = "the second half of the noise repeats the first"

	// Not faults: more noise than claimed in some elements, discrete Gaussian noise on a grid, and noise of 8 bits.
	MoreNoise     Bug = "some elements have more noise"
	DiscreteNoise Bug = "noise is a discrete Gaussian"
	ShortNoise    Bug = "noise is a bfloat16"
)

// Right lists the kinds of right trainings.
func Right() []Bug { return []Bug{None, MoreNoise, DiscreteNoise, ShortNoise} }

// Sizes of the model and of the evaluation data.
const (
	tokens, width, classes = 12, 6, 3
	embedding, weights     = tokens * width, width * classes
	parameters             = embedding + weights + classes
	shrink                 = 1.0 / 1024
)

// Evaluated is the number of members after the population that an EvaluationLeaks program
// evaluates.
const Evaluated = 5

// Program is a training. It is a replay.Step.
type Program struct {
	Bug                Bug
	Seed               uint64
	Population, Cohort int
	Sampling           privacy.Sampling
	Clip               float64
	NoiseMultiplier    float64

	members [][]record
	round   int
	cohort  []int
	before  []int // the previous cohort
	in, out int   // the members absent from Inside and Outside
}

type record struct{ token, class int }

// New returns a program of some members with 1 to 6 records each.
func New(p Program) *Program {
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	for range p.Population + Evaluated {
		var records []record
		for range 1 + rng.IntN(6) {
			records = append(records, record{rng.IntN(tokens), rng.IntN(classes)})
		}
		p.members = append(p.members, records)
	}
	return &p
}

// Claim is the claim of the right training.
func (p *Program) Claim() replay.Claim {
	return replay.Claim{NoiseMultiplier: p.NoiseMultiplier, Sampling: p.Sampling, Population: p.Population, Cohort: p.Cohort}
}

// Parts implements replay.Step.
func (p *Program) Parts() []replay.Part {
	return []replay.Part{{Name: "embedding", Size: embedding}, {Name: "weights", Offset: embedding, Size: weights}, {Name: "bias", Offset: embedding + weights, Size: classes}}
}

// Counts implements replay.Step.
func (p *Program) Counts() bool { return false }

// Begin implements replay.Step. The member absent from Outside does not train at all, or not in
// this round.
func (p *Program) Begin(_ context.Context, round int) (replay.Round, error) {
	p.round, p.cohort, p.before = round, p.draw(round), nil
	if round > 1 {
		p.before = p.draw(round - 1)
	}
	rng := rand.New(rand.NewPCG(p.Seed, uint64(round)<<8|2))
	if len(p.cohort) > 0 {
		p.in = p.cohort[rng.IntN(len(p.cohort))]
	}
	for p.out = rng.IntN(len(p.members)); slices.Contains(p.cohort, p.out); {
		p.out = rng.IntN(len(p.members))
	}
	return replay.Round{Members: p.cohort, Inside: len(p.cohort) > 0, Outside: true}, nil
}

func (p *Program) draw(round int) []int {
	sampling := p.Sampling
	switch p.Bug {
	case ShuffledForPoisson:
		sampling = privacy.Shuffled
	case SameCohort:
		round = 1
	case CohortsTwice:
		round /= 2
	case FixedSizeForPoisson:
		sampling = privacy.FixedSize
	case LastBatchSmaller:
		epoch := (p.Population + p.Cohort - 1) / p.Cohort
		place := (round - 1) % epoch
		order := rand.New(rand.NewPCG(p.Seed, uint64(round-place)<<8|3)).Perm(p.Population)
		return slices.Sorted(slices.Values(order[place*p.Cohort : min(p.Population, (place+1)*p.Cohort)]))
	}
	scheme, err := privacy.FindScheme(sampling)
	if err != nil {
		panic(err)
	}
	users, err := scheme.Draw(privacy.Round{Number: round, Population: p.Population, Cohort: p.Cohort, Stream: func(n int) (*rand.Rand, error) {
		return rand.New(rand.NewPCG(p.Seed, uint64(n)<<8|3)), nil
	}})
	if err != nil {
		panic(err)
	}
	return users
}

// Release implements replay.Step.
func (p *Program) Release(_ context.Context, r replay.Replay) (replay.Release, error) {
	s := p.step(p.cohort, p.Clip, make([]float64, parameters))
	if r.Shrunk {
		s.clip *= shrink
	}
	switch r.Data {
	case replay.Inside:
		s.absent = p.in
	case replay.Outside:
		s.absent = p.out
	case replay.Whole:
	}
	rng := rand.New(rand.NewPCG(uint64(r.State), 4))
	for i := range s.params {
		s.params[i] = rng.NormFloat64()
	}
	return replay.Release{Sum: s.release(r.Noise)}, nil
}

// Sample draws the cohort of a round with another seed.
func (p *Program) Sample(round int, seed uint64) []int {
	p.Seed = seed
	return p.draw(round)
}

// Take takes one step on a batch with another seed, from flat parameters, leaving out a member; -1
// leaves out none.
func (p *Program) Take(round int, seed uint64, params []float64, batch []int, without int, clip float64, noise bool) []float32 {
	p.Seed, p.round, p.before = seed, round, nil
	if round > 1 {
		p.before = p.draw(round - 1)
	}
	s := p.step(batch, clip, params)
	s.absent = without
	return s.release(noise)
}

type step struct {
	*Program
	cohort []int
	clip   float64
	absent int
	params []float64
	norms  float64 // the sum of the gradient norms of the batch
}

func (p *Program) step(cohort []int, clip float64, params []float64) *step {
	return &step{Program: p, cohort: cohort, clip: clip, absent: -1, params: params}
}

func (s *step) release(noise bool) []float32 {
	noises := s.noise(noise)
	sum := s.sum(s.cohort, noises)
	if s.Bug == MomentumBefore {
		floats.AddScaled(sum, 0.9, s.sum(s.before, nil))
	}
	scale := 1.0
	switch present := len(s.present(s.cohort)); s.Bug {
	case ClipAfterMean:
		scale = float64(s.Cohort)
	case LastBatchSmaller, DivisorOfCohort:
		scale = float64(s.Cohort) / float64(max(1, present))
	case DataDependentMean:
		all := s.Population
		if s.absent >= 0 && s.absent < s.Population {
			all--
		}
		scale = float64(s.Population) / float64(all)
	case EvaluationLeaks:
		scale = s.evaluate()
	}
	out := make([]float32, parameters)
	for i := range out {
		v := scale * sum[i]
		if s.Bug != NoiseBeforeClip {
			v += noises[i]
		}
		out[i] = float32(v / s.clip)
	}
	return out
}

func (s *step) noise(any bool) []float64 {
	out := make([]float64, parameters)
	if !any || s.Bug == NoiseMissing {
		return out
	}
	deviation, round := s.NoiseMultiplier*s.clip, uint64(s.round)
	switch s.Bug {
	case NoiseDivided:
		deviation /= float64(s.Cohort)
	case DataDependentNoise:
		s.sum(s.cohort, out)
		deviation *= min(1, s.norms/float64(max(1, len(s.cohort)))/2)
	case SameSeed:
		round = 1
	case SeedOfEpoch:
		round %= uint64(s.Population / s.Cohort)
	}
	rng := rand.New(rand.NewPCG(s.Seed, round<<8|5))
	for i := range out {
		if s.Bug == SharedNoise && (i == embedding || i == embedding+weights) {
			rng = rand.New(rand.NewPCG(s.Seed, round<<8|5))
		}
		switch {
		case s.Bug == NoiseOfRank && i%2 == 1:
			out[i] = out[i-1]
		case s.Bug == NoiseBroadcast && i >= width && i < embedding:
			out[i] = out[i-width]
		case s.Bug == NoiseTiled && i >= parameters/2 && i < parameters/2*2:
			out[i] = out[i-parameters/2]
		case s.Bug == MoreNoise && i%5 < 2:
			out[i] = deviation * rng.NormFloat64() * math.Pow(4, float64(i%5+i%7))
		case s.Bug == DiscreteNoise:
			out[i] = s.grid() * discrete(rng)
		case s.Bug == ShortNoise:
			bits := math.Float32bits(float32(deviation * rng.NormFloat64()))
			out[i] = float64(math.Float32frombits((bits + 1<<15) &^ (1<<16 - 1)))
		case s.Bug == EmbeddingWithout && i < embedding:
		default:
			out[i] = deviation * rng.NormFloat64()
		}
	}
	return out
}

// grid is the distance of the values of discrete noise.
func (s *step) grid() float64 { return s.NoiseMultiplier * s.clip / gridDeviation }

const gridDeviation = 3

// discrete draws a number of the grid by its probability relative to that of 0.
func discrete(rng *rand.Rand) float64 {
	for {
		x := float64(rng.IntN(20*gridDeviation+1) - 10*gridDeviation)
		if rng.Float64() < math.Exp(-x*x/(2*gridDeviation*gridDeviation)) {
			return x
		}
	}
}

// present returns the members of a cohort that are in the data set.
func (s *step) present(cohort []int) []int {
	return slices.DeleteFunc(slices.Clone(cohort), func(m int) bool { return m == s.absent })
}

func (s *step) sum(cohort []int, noise []float64) []float64 {
	present := s.present(cohort)
	sum := make([]float64, parameters)
	s.norms = 0
	var batch []float64 // the gradient of a microbatch
	for i, m := range present {
		var g []float64
		for _, chunk := range s.chunks(m) {
			g = s.gradient(chunk, present)
			s.norms += length(g)
			switch s.Bug {
			case ClipPerTensor:
				clip(g[:embedding], s.clip)
				clip(g[embedding:embedding+weights], s.clip)
				clip(g[embedding+weights:], s.clip)
			case EmbeddingUnclipped:
				clip(g[embedding:], s.clip)
			case NoiseBeforeClip:
				floats.AddScaled(g, 1, noise)
				clip(g, s.clip)
			case AccumulationOnce:
				if i >= len(present)/2 {
					clip(g, s.clip)
				}
			case DiscreteNoise:
				clip(g, s.clip)
				for k := range g {
					g[k] = math.Trunc(g[k]/s.grid()) * s.grid()
				}
			case ClipAfterMean, MeanLoss:
			default:
				clip(g, s.clip)
			}
			if s.Bug != MeanLoss {
				floats.AddScaled(sum, 1, g)
			}
		}
		if s.Bug == MeanLoss {
			if i%4 == 0 {
				batch = make([]float64, parameters)
			}
			floats.AddScaled(batch, 0.25, g)
			if i%4 == 3 || i == len(present)-1 {
				clip(batch, s.clip)
				floats.AddScaled(sum, 4, batch)
			}
		}
	}
	if s.Bug == ClipAfterMean {
		for i := range sum {
			sum[i] /= float64(s.Cohort)
		}
		clip(sum, s.clip)
	}
	return sum
}

// chunks divides a member's records; the gradient of each chunk is clipped.
func (s *step) chunks(member int) [][]record {
	records := s.members[member]
	if half := len(records) / 2; s.Bug == TwoChunks && half > 0 {
		return [][]record{records[:half], records[half:]}
	}
	return [][]record{records}
}

func (s *step) gradient(records []record, batch []int) []float64 {
	g := make([]float64, parameters)
	for _, r := range records {
		x := s.params[r.token*width : (r.token+1)*width]
		scale := 1.0
		if s.Bug == BatchNorm {
			x, scale = s.normalized(x, batch)
		}
		p := s.predict(x)
		for c := range classes {
			d := p[c]
			if c == r.class {
				d--
			}
			d /= float64(len(records))
			g[embedding+weights+c] += d
			for k := range width {
				g[embedding+k*classes+c] += d * x[k]
				g[r.token*width+k] += d * scale * s.params[embedding+k*classes+c]
			}
		}
	}
	return g
}

func (s *step) predict(x []float64) []float64 {
	p, sum := make([]float64, classes), 0.0
	for c := range classes {
		v := s.params[embedding+weights+c]
		for k := range width {
			v += x[k] * s.params[embedding+k*classes+c]
		}
		p[c] = math.Exp(v)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// normalized scales x by the mean and the deviation of the batch's elements.
func (s *step) normalized(x []float64, batch []int) ([]float64, float64) {
	mean, square, n := make([]float64, width), 0.0, 0.0
	for _, m := range batch {
		for _, r := range s.members[m] {
			floats.AddScaled(mean, 1, s.params[r.token*width:(r.token+1)*width])
			n++
		}
	}
	for k := range mean {
		mean[k] /= n
	}
	for _, m := range batch {
		for _, r := range s.members[m] {
			d := slices.Clone(s.params[r.token*width : (r.token+1)*width])
			floats.AddScaled(d, -1, mean)
			square += length(d) * length(d)
		}
	}
	scale := 1 / math.Sqrt(square/n/width+1e-3)
	d := slices.Clone(x)
	floats.AddScaled(d, -1, mean)
	for k := range d {
		d[k] *= scale
	}
	return d, scale
}

// evaluate returns a factor that depends on the mean loss on the evaluation data.
func (s *step) evaluate() float64 {
	loss, n := 0.0, 0.0
	for m := s.Population; m < len(s.members); m++ {
		if m == s.absent {
			continue
		}
		for _, r := range s.members[m] {
			loss -= math.Log(s.predict(s.params[r.token*width : (r.token+1)*width])[r.class])
			n++
		}
	}
	return 1 / (1 + loss/n)
}

func length(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// clip shortens x to a norm.
func clip(x []float64, most float64) {
	scale := privacy.ClipScale(length(x), most)
	for i := range x {
		x[i] *= scale
	}
}
