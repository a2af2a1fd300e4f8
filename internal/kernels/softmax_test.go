package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// logSumExpFloat64 is the definition.
func logSumExpFloat64(x []float32) float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, float64(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - largest)
	}
	return largest + math.Log(sum)
}

func TestLogSumExp(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 300; n += 7 {
		x := randomVector(rng, n)
		if got, want := LogSumExp(x), logSumExpFloat64(x); !near(got, want, 1e-7) {
			t.Errorf("of %d elements: %v, want %v", n, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		want float64
	}{
		{nil, math.Inf(-1)}, {[]float32{-inf, -inf}, math.Inf(-1)}, {[]float32{-inf, 3}, 3},
		{[]float32{300, 300}, 300 + math.Ln2}, {[]float32{float32(math.NaN())}, math.NaN()},
	} {
		if got := LogSumExp(c.x); got != c.want && !near(got, c.want, 1e-15) && !(got != got && c.want != c.want) {
			t.Errorf("of %v: %v, want %v", c.x, got, c.want)
		}
	}
}

// crossEntropy runs the two passes over a row in tiles, and returns the loss;
// the row becomes the gradient.
func crossEntropy(row []float32, tile, target int, scale float32, bias []float32) float64 {
	logit := row[target]
	var maxes []float32
	var sums []float64
	for j := 0; j < len(row); j += tile {
		m, s := SoftmaxTile(row[j:min(j+tile, len(row))])
		maxes, sums = append(maxes, m), append(sums, s)
	}
	loss := SoftmaxMerge(maxes, sums) - float64(logit)
	for i, j := 0, 0; j < len(row); i, j = i+1, j+tile {
		end := min(j+tile, len(row))
		place := target - j
		if target >= end {
			place = -1
		}
		CrossEntropyTile(row[j:end], maxes[i], scale, max(place, -1), bias[j:end])
	}
	return loss
}

func TestTiledCrossEntropyIsTheWholeOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	const n, scale = 100, 0.25
	for tile := 1; tile <= n; tile += 9 {
		logits := normal(rng, n)
		target := rng.IntN(n)
		row, bias := clone(logits), make([]float32, n)
		loss := crossEntropy(row, tile, target, scale, bias)
		whole := logSumExpFloat64(logits)
		if !near(loss, whole-float64(logits[target]), 1e-7) {
			t.Errorf("tiles of %d: loss %v, want %v", tile, loss, whole-float64(logits[target]))
		}
		for j := range row {
			want := scale * math.Exp(float64(logits[j])-whole)
			if j == target {
				want -= scale
			}
			if !near(float64(row[j]), want, 1e-6) || bias[j] != row[j] {
				t.Fatalf("tiles of %d: gradient %d is %v (bias %v), want %v", tile, j, row[j], bias[j], want)
			}
		}
	}
}

// A tile whose weight underflows to 0 must give 0, and -scale at its target,
// not 0 times infinity.
func TestCrossEntropySurvivesUnderflow(t *testing.T) {
	t.Parallel()
	row := []float32{500, 499, -500, -501, float32(math.Inf(-1)), float32(math.Inf(-1))}
	bias := make([]float32, len(row))
	loss := crossEntropy(row, 2, 2, 0.5, bias)
	if !near(loss, 1000+math.Log1p(math.Exp(-1)), 1e-7) {
		t.Errorf("loss %v", loss)
	}
	mustEqual(t, "far tiles", row[2:], []float32{-0.5, 0, 0, 0})
	mustEqual(t, "their bias", bias[2:], []float32{-0.5, 0, 0, 0})
}

func TestLogFloat64(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 2))
	for range 100_000 {
		x := math.Float64frombits(rng.Uint64() >> 1)
		got, want := logFloat64(x), math.Log(x)
		if x < 0x1p-1022 { // where math.Log is wrong on amd64
			want = math.Log(x*0x1p200) - 200*math.Ln2
		}
		if math.Abs(got-want) > 2e-16*math.Abs(want) && !identical64(got, want) {
			t.Fatalf("log %v = %v, want %v", x, got, want)
		}
	}
}
