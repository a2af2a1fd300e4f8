package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

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

// tiledSoftmax turns a row into its softmax, tile by tile, and returns the
// log-sum-exp.
func tiledSoftmax(row []float32, tile int) float64 {
	var maxes []float32
	var sums []float64
	for j := 0; j < len(row); j += tile {
		m, s := SoftmaxTile(row[j:min(j+tile, len(row))])
		maxes, sums = append(maxes, m), append(sums, s)
	}
	logSum := SoftmaxMerge(maxes, sums)
	for i, j := 0, 0; j < len(row); i, j = i+1, j+tile {
		Scale(maxes[i], row[j:min(j+tile, len(row))])
	}
	return logSum
}

func TestTiledSoftmaxMatchesWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	const n = 100
	for tile := 1; tile <= n; tile += 9 {
		logits := normal(rng, n)
		row := clone(logits)
		logSum, whole := tiledSoftmax(row, tile), logSumExpFloat64(logits)
		if !near(logSum, whole, 1e-7) {
			t.Errorf("tiles of %d: log-sum-exp %v, want %v", tile, logSum, whole)
		}
		for j := range row {
			if want := math.Exp(float64(logits[j]) - whole); !near(float64(row[j]), want, 1e-6) {
				t.Fatalf("tiles of %d: probability %d is %v, want %v", tile, j, row[j], want)
			}
		}
	}
}

// A tile whose weight underflows to 0 must give 0.
func TestSoftmaxSurvivesUnderflow(t *testing.T) {
	t.Parallel()
	row := []float32{500, 499, -500, -501, float32(math.Inf(-1)), float32(math.Inf(-1))}
	if logSum := tiledSoftmax(row, 2); !near(logSum, 500+math.Log1p(math.Exp(-1)), 1e-7) {
		t.Errorf("log-sum-exp %v", logSum)
	}
	mustEqual(t, "far tiles", row[2:], []float32{0, 0, 0, 0})
}

func TestLogFloat64(t *testing.T) {
	t.Parallel()
	const oneUlp = 0x1p-52 // math.Log itself may be off: on arm64 it fuses products
	rng := rand.New(rand.NewPCG(3, 2))
	for range 100_000 {
		x := math.Float64frombits(rng.Uint64() >> 1)
		got, want := LogFloat64(x), math.Log(x)
		if x < 0x1p-1022 { // where math.Log is wrong on amd64
			want = math.Log(x*0x1p200) - 200*math.Ln2
		}
		if math.Abs(got-want) > oneUlp*math.Abs(want) && !identical64(got, want) {
			t.Fatalf("log %v = %v, want %v", x, got, want)
		}
	}
}
