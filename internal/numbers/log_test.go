package numbers_test

import (
	"math"
	"testing"

	"coalmine/internal/numbers"
)

func TestLogKnowsSubnormalNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]float64{
		math.SmallestNonzeroFloat64: -1074 * math.Ln2, 0x1p-1070: -1070 * math.Ln2, 0x1.8p-1030: -1030*math.Ln2 + math.Log(1.5),
		0x1p-1022: -1022 * math.Ln2, 0.5: -math.Ln2, 0: math.Inf(-1),
	} {
		if got := numbers.Log(x); got != want && math.Abs(got-want) > 1e-12 {
			t.Errorf("log of %v is %v, want %v", x, got, want)
		}
	}
}
