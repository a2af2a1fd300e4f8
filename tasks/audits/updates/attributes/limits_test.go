package attributes

import (
	"slices"
	"testing"

	"coalmine/tasks/audits"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Attribute: &AttackOutcome{Attribute: &Accuracy{Users: 30, Accuracy: 0.9, FactorLow: new(1.2)}, Unseen: &Accuracy{Users: 30, Accuracy: 0.8, FactorLow: new(1.4)}}}
	v.Majority.Seen, v.Majority.Unseen = &Accuracy{Accuracy: 0.5}, &Accuracy{Accuracy: 0.5}
	cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
	for limit, want := range map[float64][]string{
		1.3: {"the accuracy of the attribute of unseen users is 1.6 times chance; at least it is 1.4, above the limit of 1.3"},
		1.5: nil,
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
