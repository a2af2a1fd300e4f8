package attributes

import (
	"testing"

	"coalmine/tasks/audits/auditstest"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Attribute: AttackOutcome{Attribute: &Accuracy{Users: 30, Accuracy: 0.9, FactorLow: new(1.2)}, Unseen: &Accuracy{Users: 30, Accuracy: 0.8, FactorLow: new(1.4)}}}
	v.Majority.Seen, v.Majority.Unseen = &Accuracy{Accuracy: 0.5}, &Accuracy{Accuracy: 0.5}
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.3: {"the accuracy of the attribute of unseen users is 1.6 times chance; at least it is 1.4, above the limit of 1.3"},
		1.5: nil,
	})
}
