package cluster

import (
	"bytes"
	"strings"
	"testing"
)

func TestAFactorIsTheSameTooLowAndTooHigh(t *testing.T) {
	t.Parallel()
	low, high := &ForecastRow{File: "low.yaml", Settings: []string{"seed=2"}, Predicted: 3, PredictedCPU: 5, RealCPU: 10}, &ForecastRow{File: "high.yaml", PredictedCPU: 10, RealCPU: 5}
	if low.Factor() != 2 || high.Factor() != 2 {
		t.Errorf("factors %g and %g, want 2", low.Factor(), high.Factor())
	}
	var out bytes.Buffer
	ForecastRows{low, high}.Print(&out)
	if !strings.Contains(out.String(), "low.yaml seed=2  3.0") || strings.Count(out.String(), "2.00") != 2 {
		t.Errorf("%s", &out)
	}
}
