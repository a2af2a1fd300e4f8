package models

import (
	"fmt"
	"math"
)

// Quantize rounds every parameter, in place, to one of 2^bits - 1 values for its tensor:
// the multiples, up to ±(2^(bits-1) - 1), of the tensor's largest magnitude over that number. It
// takes the nearest value, and the even multiple in a tie. So bits per parameter, 2 to 8, and one
// scale per tensor describe the model: linear, symmetric quantization by tensor (Jacob et al.,
// "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
// 2018, section 2.1, with zero point 0). The parameters must be finite.
func Quantize(n Network, params []float32, bits int) error {
	if err := CheckParameters(n, params); err != nil {
		return err
	}
	if bits < 2 || bits > 8 {
		return fmt.Errorf("quantization to %d bits: want 2 to 8", bits)
	}
	for _, t := range n.Tensors() {
		quantize(t.View(params), float64(int(1)<<(bits-1)-1))
	}
	return nil
}

// quantize rounds to multiples of the largest magnitude over levels.
func quantize(values []float32, levels float64) {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(float64(v)))
	}
	if largest == 0 {
		return
	}
	scale := largest / levels
	for i, v := range values {
		values[i] = float32(math.RoundToEven(float64(v)/scale) * scale)
	}
}
