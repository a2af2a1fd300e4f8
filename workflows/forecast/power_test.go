package forecast

import (
	"testing"

	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// The search for the largest limit that is exceeded ends, also if only 0 is.
func TestReachesEndsNearZero(t *testing.T) {
	t.Parallel()
	for most, want := range map[float64]float64{0: 1e-6, 0.25: 0.25, 3: 3} {
		s := &experiment.Power{Statement: experiment.Statement{Statement: audits.Statement{Power: func(q audits.Question) float64 {
			if *q.Limit <= most {
				return 1
			}
			return 0
		}}}}
		if got := reaches(s, 1); got == nil || *got < most || *got > want*1.001 {
			t.Errorf("of limits up to %g the search finds %v", most, got)
		}
	}
}
