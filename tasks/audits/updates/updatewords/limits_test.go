package updatewords

import (
	"testing"

	"coalmine/tasks/audits/auditstest"
)

func TestTheLimitIsOnWhatUpdatesSayBeyondFrequency(t *testing.T) {
	t.Parallel()
	v := &Outcome{BaselineAP: 0.4}
	v.AP = 0.8
	auditstest.CheckLimit(t, &Audit, v, new(Outcome), map[float64][]string{
		1.5: {"the AP of words read off updates, over that by their frequency alone, is 2, above the limit of 1.5"},
		2.5: nil,
	})
}
