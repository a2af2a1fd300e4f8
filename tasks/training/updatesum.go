package training

import (
	"slices"

	"coalmine/storage/safetensors"
)

// updateSum adds up scaled updates in order, in float64 starting from zero. Its zero value is an
// empty sum. A float64 vector takes the memory of two updates. For up to two updates there is none:
// the first is stored unchanged, and the newest is not copied until release.
type updateSum struct {
	many          bool   // more than two are expected
	first, newest scaled // Values are nil if there is none
	wide          []float64
}

// scaled is a vector with a factor.
type scaled struct {
	values []float32
	scale  float64
}

// add adds scale*update. The caller must not change the update until release or tensor.
func (s *updateSum) add(update []float32, scale float64) {
	s.release()
	s.newest = scaled{update, scale}
}

// release allows the caller to reuse the memory of the newest update.
func (s *updateSum) release() {
	switch newest := s.newest.values; {
	case newest == nil:
	case s.first.values == nil && s.wide == nil && !s.many:
		s.first = scaled{slices.Clone(newest), s.newest.scale}
	default:
		s.widen()
	}
	s.newest = scaled{}
}

// widen adds the pending updates to the float64 vector.
func (s *updateSum) widen() {
	if s.wide == nil {
		s.wide = make([]float64, len(s.newest.values))
		s.first.addTo(s.wide)
		s.first = scaled{}
	}
	s.newest.addTo(s.wide)
}

func (x scaled) addTo(sum []float64) {
	sum = sum[:len(x.values)]
	for i, v := range x.values {
		sum[i] += float64(x.scale * float64(v))
	}
}

// at returns element i, 0 if there is no vector.
func (x scaled) at(i int) float64 {
	if x.values == nil {
		return 0
	}
	return float64(x.scale * float64(x.values[i]))
}

// tensor returns the sum, rounded, as a tensor of the given length. It reuses the memory of the sum, which
// must not be used afterwards.
func (s *updateSum) tensor(length int) safetensors.Tensor {
	shape := []int{length}
	if s.wide != nil {
		s.release()
		return safetensors.Tensor{Shape: shape, Rounded: s.wide}
	}
	sum := s.first.values
	if sum == nil {
		sum = make([]float32, length)
	}
	var zero float64 // as in wide: a sum of negative zeros is positive zero
	for i := range sum {
		sum[i] = float32(zero + s.first.at(i) + s.newest.at(i))
	}
	return safetensors.Tensor{Shape: shape, Float32: sum}
}
