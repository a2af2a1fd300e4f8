package linking

import (
	"testing"

	"coalmine/tasks/audits/auditstest"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{}
	v.Pairs.Users = 30
	v.Pairs.AP.Value, v.Pairs.AP.Low = 0.9, 0.8
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.5: {"the AP of linked updates is 1.8 times chance; at least it is 1.6, above the limit of 1.5"},
		1.7: nil,
	})
}
