package numbers_test

import (
	"encoding/json"
	"math"
	"testing"

	"coalmine/internal/numbers"
)

func TestJSONHasNullForInfinity(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0", 62.25: "62.25", math.MaxFloat64: "1.7976931348623157e+308", math.Inf(1): "null"} {
		data, err := json.Marshal(numbers.Float(x))
		if err != nil || string(data) != want {
			t.Errorf("%v is %s (%v), want %s", x, data, err, want)
		}
		var back numbers.Float
		if err := json.Unmarshal(data, &back); err != nil || float64(back) != x {
			t.Errorf("%s reads as %v (%v), want %v", data, back, err, x)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(-1)} {
		if data, err := json.Marshal(numbers.Float(x)); err == nil {
			t.Errorf("%v is %s, want an error", x, data)
		}
	}
}

func TestFiniteOmitsNonFinite(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := numbers.Finite(x); got != nil {
			t.Errorf("Finite(%v) is %v, want nil", x, *got)
		}
	}
	if got := numbers.Finite(numbers.Float(-2)); got == nil || *got != -2 {
		t.Errorf("Finite(-2) is %v", got)
	}
}

func TestLargeNumbersHaveAPowerOfTen(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]float64{
		"0.0": 0, "70.4": 70.4, "-1.2": -1.25, "9999999.0": 9999999, "1.0e+07": 1e7, "-4.3e+50": -4.251e50,
		"infinite": math.Inf(1), "-infinite": math.Inf(-1),
	} {
		if got := numbers.Decimal(x, 1); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

func TestLogOfSubnormals(t *testing.T) {
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
