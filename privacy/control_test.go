package privacy_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
)

func TestAControlIsLoudAndChangesNoEpsilon(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 50, Rounds: 20, NoiseMultiplier: 1, Delta: 1e-5}
	honest := must.Get(privacy.Account(r))(t)
	for _, word := range privacy.Control("").Choices() {
		r.Control = privacy.Control(word)
		got := must.Get(privacy.Account(r))(t)
		const loud = "this training is broken on purpose ("
		if got.EpsilonProved != honest.EpsilonProved || !strings.HasPrefix(got.Summary(), "CONTROL "+word+": "+loud) || !strings.Contains(got.Assumptions[0], loud) {
			t.Errorf("%s: %s", word, got.Summary())
		}
		if strings.Contains(got.Summary(), "()") {
			t.Errorf("%s: nobody says what it does: %s", word, got.Summary())
		}
	}
	if strings.Contains(honest.Summary(), "CONTROL") {
		t.Errorf("no control: %s", honest.Summary())
	}
}

func TestControlsOfClippingChangeTheFactor(t *testing.T) {
	t.Parallel()
	for control, want := range map[privacy.Control]float64{
		"": 0.25, privacy.NoNoise: 0.25, privacy.SameCohort: 0.25, privacy.PoissonAccounted: 0.25, privacy.DoubleSensitivity: 0.5, privacy.ClipPerBatch: 1,
	} {
		if got := control.ClipScale(4, 1); math.Abs(got-want) > 1e-15 {
			t.Errorf("%s: an update of norm 4 is scaled by %v at clip 1, want %v", control, got, want)
		}
	}
	if got := privacy.ClipPerBatch.ClipScale(math.Inf(1), 1); got != 0 {
		t.Errorf("an infinite update is scaled by %v, want 0", got)
	}
}
