package matching

import (
	"testing"

	"coalmine/tasks/audits/auditstest"
)

// Limits are passed by the lower end of an interval, not by the number itself.
func TestLimitsArePassedByLowerBounds(t *testing.T) {
	t.Parallel()
	v := &Outcome{Shadow: new(Measurements)}
	v.Shadow.Network.Users = 30
	v.Shadow.Network.AP.Value, v.Shadow.Network.AP.Low = 0.9, 0.55
	v.Shadow.Cosine.AP.Value, v.Shadow.Cosine.AP.Low = 0.7, 0.6
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.15: {"the AP of pairs with a shadow device, told by the cosine, is 1.4 times chance; at least it is 1.2, above the limit of 1.15"},
		1.3:  nil,
	})
}
