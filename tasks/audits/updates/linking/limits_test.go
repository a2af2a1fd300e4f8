package linking

import (
	"slices"
	"testing"

	"coalmine/tasks/audits"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{}
	v.Pairs.Users = 30
	v.Pairs.AP.Value, v.Pairs.AP.Low = 0.9, 0.8
	cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
	for limit, want := range map[float64][]string{
		1.5: {"the AP of linked updates is 1.8 times chance; at least it is 1.6, above the limit of 1.5"},
		1.7: nil,
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
