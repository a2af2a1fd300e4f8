package training

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage/safetensors"
)

// plainSum is the definition: from a zero on, in float64, in their order.
func plainSum(length int, updates []scaled) []float32 {
	sum := make([]float32, length)
	for i := range sum {
		var wide float64
		for _, u := range updates {
			wide += float64(u.scale * float64(u.values[i]))
		}
		sum[i] = float32(wide)
	}
	return sum
}

func written(t *rapid.T, sum safetensors.Tensor) []float32 {
	data := must.Get(EncodeSum(sum, []float32{}))(t)
	file := must.Get(safetensors.Unmarshal(data))(t)
	tensor, _ := file.Tensor(SumTensor)
	return tensor.Float32
}

// Any number of updates, which all come in the same memory, as a learner's do.
func TestASumOfUpdatesHasTheBytesOfASumInFloat64(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 5).Draw(t, "length")
		value := rapid.OneOf(rapid.Float32Range(-1e6, 1e6), rapid.Just(float32(math.Copysign(0, -1))))
		var updates []scaled
		for range rapid.IntRange(0, 5).Draw(t, "updates") {
			updates = append(updates, scaled{rapid.SliceOfN(value, length, length).Draw(t, "update"), rapid.Float64Range(1e-6, 100).Draw(t, "scale")})
		}
		sum := updateSum{many: rapid.Bool().Draw(t, "many")}
		learner := make([]float32, length)
		for _, u := range updates {
			sum.release()
			copy(learner, u.values)
			sum.add(learner, u.scale)
		}
		got := written(t, sum.tensor(length))
		for i, want := range plainSum(length, updates) {
			if math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Fatalf("element %d is %v, want %v", i, got[i], want)
			}
		}
	})
}

// A sum of two takes the memory of the first and of the learner alone.
func TestASumOfTwoUpdatesIsNotWidened(t *testing.T) {
	t.Parallel()
	var sum updateSum
	learner := []float32{1, 2}
	for range 2 {
		sum.release()
		sum.add(learner, 1)
	}
	if kept := sum.first.values; sum.wide != nil || &sum.tensor(2).Float32[0] != &kept[0] {
		t.Error("the sum of two updates has memory of its own")
	}
}
