package privacy

import (
	"fmt"
	"math"
)

// Control names a deliberate fault of a training, which accounting ignores: a positive control for
// privacy audits. The empty Control is no fault. The faults apply to federated training with
// independent noise.
type Control string

// Controls.
const (
	// NoNoise adds no noise to the mean update.
	NoNoise Control = "no-noise"
	// ClipPerBatch clips the change of each local step instead of the user's update. The norm of
	// the update may then reach the clip norm times the number of steps.
	ClipPerBatch Control = "clip-per-batch"
	// DoubleSensitivity clips updates to twice the clip norm that the noise is
	// scaled to.
	DoubleSensitivity Control = "double-sensitivity"
	// PoissonAccounted deals the users into cohorts in a random order, as [Shuffled] does, but
	// is accounted for as Poisson samples.
	PoissonAccounted Control = "poisson-accounted"
	// SameCohort trains the cohort of the first round in every round.
	SameCohort Control = "same-cohort"
)

var controls = map[Control]string{
	NoNoise:           "no noise is added",
	ClipPerBatch:      "local steps are clipped, and updates are not",
	DoubleSensitivity: "updates are clipped to twice the clip norm",
	PoissonAccounted:  "cohorts are cut from a shuffled order instead of drawn as Poisson samples",
	SameCohort:        "the users of the first round train in every round",
}

// Choices lists the controls for an experiment file.
func (Control) Choices() []string {
	return []string{string(NoNoise), string(ClipPerBatch), string(DoubleSensitivity), string(PoissonAccounted), string(SameCohort)}
}

// Warning explains why no epsilon holds; empty without a control.
func (c Control) Warning() string {
	if c == "" {
		return ""
	}
	return fmt.Sprintf("CONTROL %s: this training is broken on purpose (%s); epsilon_proved does not hold", c, controls[c])
}

// ClipScale is [ClipScale] with the fault of the control.
func (c Control) ClipScale(norm, clip float64) float64 {
	switch c {
	case ClipPerBatch:
		clip = math.MaxFloat64
	case DoubleSensitivity:
		clip *= 2
	case NoNoise, PoissonAccounted, SameCohort:
	}
	return ClipScale(norm, clip)
}
