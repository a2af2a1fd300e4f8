package matching

import (
	"slices"
	"testing"

	"coalmine/tasks/audits"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Shadow: new(Measurements)}
	v.Shadow.Network.Users = 30
	v.Shadow.Network.AP.Value, v.Shadow.Network.AP.Low = 0.9, 0.55
	v.Shadow.Cosine.AP.Value, v.Shadow.Cosine.AP.Low = 0.7, 0.6
	cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
	for limit, want := range map[float64][]string{
		1.15: {"the AP of pairs with a shadow device, told by the cosine, is 1.4 times chance; at least it is 1.2, above the limit of 1.15"},
		1.3:  nil,
	} {
		if got := limits[0].Breaches(cell, &limit); !slices.Equal(got, want) {
			t.Errorf("limit %g: %q, want %q", limit, got, want)
		}
	}
	if got := Audit.Given(Audit.NewLimits()); got != nil {
		t.Errorf("without a limit %v is judged", got)
	}
	limit := 1.0
	if got := limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{new(Outcome)}}, &limit); got != nil {
		t.Errorf("without anything measured %q", got)
	}
}
