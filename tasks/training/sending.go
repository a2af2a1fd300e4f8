package training

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks"
)

// Compression reduces the bytes of a client's update. It follows clipping and noise.
type Compression struct {
	// Keep is the share of elements kept, those with the largest absolute values, at least one;
	// other elements become 0. 0 keeps all (Aji and Heafield 2017, "Sparse Communication for
	// Distributed Gradient Descent", section 3).
	Keep float64 `json:"keep,omitempty"`
	// Bits is the number of bits of a kept element, 2 to 16: every tensor has 2^Bits - 1 levels
	// between plus and minus its largest absolute value, and an element is rounded at random to one
	// of the two nearest, so that its mean is unchanged (Alistarh et al. 2017, "QSGD", section 3.1,
	// by the largest value instead of the norm). 0 does not round.
	Bits int `json:"bits,omitempty"`
}

// validate returns an error for parameters that no plan has.
func (c *Compression) validate() error {
	if c == nil || c.Keep >= 0 && c.Keep <= 1 && (c.Bits == 0 || c.Bits >= 2 && c.Bits <= 16) {
		return nil
	}
	return tasks.Permanent(fmt.Errorf("compression to %v of the elements in %d bits: expected a share from 0 to 1, and 0 or 2 to 16 bits", c.Keep, c.Bits))
}

// validateNoise returns an error if the clients' noise does not add up to the noise of the round.
func (p *ClientsParams) validateNoise() error {
	if p.NoiseMultiplier == 0 || p.Clip > 0 && !p.AdaptiveClip && p.Noise == 0 && p.Compress == nil && p.Sampling == privacy.FixedSize {
		return nil
	}
	return tasks.Permanent(fmt.Errorf("clients make the noise of a round, and their updates are clipped to %v (adaptive: %v), %s-sampled, with noise %v of their own and compression %v: expected a fixed clip, cohorts of %s and neither of the others",
		p.Clip, p.AdaptiveClip, p.Sampling, p.Noise, p.Compress != nil, privacy.FixedSize))
}

// sender turns a client's clipped update into the sent update.
type sender struct {
	task    *tasks.Task
	params  *ClientsParams
	tensors []models.Tensor
	counts  []int // used by largest
}

// newSender returns a sender for the trained tensors of a network.
func newSender(t *tasks.Task, p *ClientsParams, n models.Network) *sender {
	return &sender{task: t, params: p, tensors: models.TrainedTensors(n)}
}

// changes reports whether the sent update differs from the clipped one.
func (s *sender) changes() bool {
	return s.params.Noise > 0 || s.params.NoiseMultiplier > 0 || s.params.Compress != nil
}

// send turns a client's clipped update into the update that the server receives.
func (s *sender) send(update []float32, round, user int) error {
	p := s.params
	if err := s.addNoise(update, privacy.NoiseShare(p.NoiseMultiplier, p.Clip, p.Cohort), seeds.NoiseShare, round, user); err != nil {
		return err
	}
	if err := s.addNoise(update, p.Noise, seeds.ClientNoise, round, user); err != nil {
		return err
	}
	if p.Compress == nil {
		return nil
	}
	return s.compress(update, round, user)
}

// addNoise adds noise of a standard deviation, unless 0, from the client's stream of a role.
func (s *sender) addNoise(update []float32, deviation float64, role seeds.Role, round, user int) error {
	if deviation == 0 {
		return nil
	}
	normals, err := s.task.Normals(s.params.Seed, s.params.Secret, role, uint64(round), uint64(user))
	if err == nil {
		privacy.AddGaussian(normals, update, deviation)
	}
	return err
}

// compress drops elements and rounds the kept ones. A clipped update without noise stays within the
// clip: if rounding lengthens it, the levels are scaled down.
func (s *sender) compress(update []float32, round, user int) error {
	if keep := s.params.Compress.Keep; keep > 0 && keep < 1 {
		s.keepLargest(update, max(1, int(math.Ceil(keep*float64(len(update))))))
	}
	bits := s.params.Compress.Bits
	if bits == 0 {
		return nil
	}
	rng, err := s.task.Stream(s.params.Seed, s.params.Secret, seeds.ClientRounding, uint64(round), uint64(user))
	if err != nil {
		return err
	}
	for _, tensor := range s.tensors {
		roundToLevels(rng, tensor.View(update), 1<<(bits-1)-1)
	}
	if clip := s.params.Clip; clip > 0 && s.params.Noise == 0 {
		scaleTo(update, privacy.ClipScale(math.Sqrt(kernels.SquaredNorm(update)), clip))
	}
	return nil
}

// keepLargest sets all except the k elements with the largest absolute values to 0. In a tie it
// keeps the first.
func (s *sender) keepLargest(x []float32, k int) {
	bar, equal := s.largest(x, k)
	for i, v := range x {
		switch magnitude := magnitudeOf(v); {
		case magnitude < bar, magnitude == bar && equal == 0:
			x[i] = 0
		case magnitude == bar:
			equal--
		}
	}
}

// magnitudeOf orders numbers by their absolute values.
func magnitudeOf(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }

// halfBits is the number of lower bits of a magnitude of 31 bits.
const halfBits = 15

// largest returns the magnitude of the k-th largest of x, 1 <= k <= len(x), and how many elements
// of that magnitude are among the k. It counts elements by upper bits, and then by lower bits those
// that share the upper bits of the k-th.
func (s *sender) largest(x []float32, k int) (bar uint32, equal int) {
	if s.counts == nil {
		s.counts = make([]int, 1<<(31-halfBits))
	}
	clear(s.counts)
	for _, v := range x {
		s.counts[magnitudeOf(v)>>halfBits]++
	}
	upper, k := kthFromAbove(s.counts, k)
	clear(s.counts)
	for _, v := range x {
		if m := magnitudeOf(v); m>>halfBits == uint32(upper) {
			s.counts[m&(1<<halfBits-1)]++
		}
	}
	lower, equal := kthFromAbove(s.counts, k)
	return uint32(upper)<<halfBits | uint32(lower), equal
}

// kthFromAbove returns the bin of the k-th item, counted from the last bin, and its number within
// the bin.
func kthFromAbove(counts []int, k int) (bin, within int) {
	for bin = len(counts) - 1; k > counts[bin]; bin-- {
		k -= counts[bin]
	}
	return bin, k
}

// roundToLevels rounds x to multiples of its largest absolute value divided by levels, up
// or down with the probabilities that keep the mean.
func roundToLevels(rng *rand.Rand, x []float32, levels int) {
	largest := uint32(0)
	for _, v := range x {
		largest = max(largest, magnitudeOf(v))
	}
	if largest == 0 {
		return
	}
	step := float64(math.Float32frombits(largest)) / float64(levels)
	for i, v := range x {
		steps := float64(v) / step
		whole := math.Floor(steps)
		if rng.Float64() < steps-whole {
			whole++
		}
		whole = max(-float64(levels), min(whole, float64(levels)))
		x[i] = float32(whole * step)
	}
}

// scaleTo multiplies x, in float64; a scale of 1 leaves x unchanged.
func scaleTo(x []float32, scale float64) {
	if scale == 1 {
		return
	}
	for i, v := range x {
		x[i] = float32(float64(v) * scale)
	}
}
