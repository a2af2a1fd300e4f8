package updatewords

import (
	"slices"
	"testing"

	"coalmine/tasks/audits"
)

func TestTheLimitIsOnWhatUpdatesSayBeyondFrequency(t *testing.T) {
	t.Parallel()
	v := &Outcome{BaselineAP: 0.4}
	v.AP = 0.8
	cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
	for limit, want := range map[float64][]string{
		1.5: {"the AP of words read off updates, over that by their frequency alone, is 2, above the limit of 1.5"},
		2.5: nil,
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
