package estimate

import (
	"math"
	"testing"
)

func TestMillenniaAreATimeToo(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * 3600
	c := Cost{TrainingFLOP: 3e24, MeasuringFLOP: 1e24}
	if got, want := c.Seconds(100, 2)/year, 4e24/(100e9*Efficiency*2)/year; math.Abs(got-want) > 1e-9*want || got < 1000 {
		t.Errorf("%g years, want %g", got, want)
	}
}
