package rdp_test

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/rdp"
)

func TestUnknownConversionGivesNoBound(t *testing.T) {
	t.Parallel()
	curve := must.Get(rdp.Gaussian(2, rdp.DefaultOrders()))(t)
	for _, unknown := range []rdp.Conversion{"", "tightest"} {
		if unknown.Validate() == nil {
			t.Errorf("conversion %q is valid", unknown)
		}
		if epsilon, order := curve.Epsilon(1e-5, unknown); !math.IsInf(epsilon, 1) || order != 0 {
			t.Errorf("conversion %q: epsilon %v at order %v, want no bound", unknown, epsilon, order)
		}
	}
	for _, theorem := range rdp.Theorems() {
		if epsilon, _ := curve.Epsilon(1e-5, theorem.Conversion); theorem.Conversion.Validate() != nil || math.IsInf(epsilon, 1) || theorem.Summary == "" || theorem.Source == "" {
			t.Errorf("the entry of the conversion %s gives epsilon %v", theorem.Conversion, epsilon)
		}
	}
}
