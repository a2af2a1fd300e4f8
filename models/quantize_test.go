package models

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestQuantizedTensorsAreTheNearestMultiplesOfTheirStep(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{2, 3, 8} {
		eachVariant(t, 40, func(t *testing.T, m *Language) {
			params := wideParams(m, testRand(71))
			quantized := slices.Clone(params)
			check(t, Quantize(m, quantized, bits))
			levels := math.Exp2(float64(bits-1)) - 1
			for _, tensor := range m.Tensors() {
				before, after := tensor.View(params), tensor.View(quantized)
				step := largest(before) / levels
				for i, v := range after {
					multiple := float64(v) / step
					if math.Abs(multiple-math.Round(multiple)) > 1e-3 || math.Abs(multiple) > levels+1e-3 {
						t.Fatalf("%v element %d in %d bits: %v is %v steps of %v", tensor, i, bits, v, multiple, step)
					}
					if off := math.Abs(float64(v) - float64(before[i])); off > step*0.5001 {
						t.Fatalf("%v element %d in %d bits: %v became %v, %v steps away", tensor, i, bits, before[i], v, off/step)
					}
				}
				if largest(after) != largest(before) {
					t.Errorf("%v in %d bits: the largest magnitude was %v and is %v", tensor, bits, largest(before), largest(after))
				}
			}
		})
	}
}

func TestQuantizationRoundsHalvesToEvenAndKeepsZero(t *testing.T) {
	t.Parallel()
	values := []float32{3, 0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.4}
	quantize(values, 3) // 3 bits: steps of 1
	if want := []float32{3, 0, 0, 2, 2, 0, -2, -2}; !slices.Equal(values, want) {
		t.Errorf("%v, want %v", values, want)
	}
	zeros := make([]float32, 3)
	if quantize(zeros, 127); !slices.Equal(zeros, make([]float32, 3)) {
		t.Errorf("zeros became %v", zeros)
	}
}

func TestQuantizationIsIdempotent(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 40, 5, 7)
	params := wideParams(m, testRand(72))
	check(t, Quantize(m, params, 8))
	again := slices.Clone(params)
	check(t, Quantize(m, again, 8))
	if !slices.Equal(again, params) {
		t.Error("a quantized model changed when it was quantized once more")
	}
}

func TestQuantizationRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 9, 3, 4)
	params := make([]float32, m.Parameters())
	for _, bits := range []int{-1, 0, 1, 9} {
		if err := Quantize(m, params, bits); err == nil || !strings.Contains(err.Error(), "want 2 to 8") {
			t.Errorf("%d bits: error %v", bits, err)
		}
	}
	if err := Quantize(m, params[1:], 8); err == nil || !strings.Contains(err.Error(), "the parameter vector has") {
		t.Errorf("a short vector: error %v", err)
	}
}
