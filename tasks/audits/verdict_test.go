package audits

import (
	"math"
	"testing"
)

func TestLargeNumbersHaveAPowerOfTen(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]float64{
		"0.0": 0, "70.4": 70.4, "-1.2": -1.25, "9999999.0": 9999999, "1.0e+07": 1e7, "-4.3e+50": -4.251e50, "+Inf": math.Inf(1),
	} {
		if got := Decimal(x, 1); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}
