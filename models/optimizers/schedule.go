package optimizers

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Kinds of schedules.
const (
	Constant = "constant"
	StepWise = "step"
	Cosine   = "cosine"
)

// ScheduleKinds lists the kinds of schedules.
func ScheduleKinds() []string { return []string{Constant, StepWise, Cosine} }

// Schedule is how a learning rate changes over training: a warm-up, then the
// course that Kind names. The zero value is a constant rate.
type Schedule struct {
	// Kind is one of ScheduleKinds; empty means constant.
	Kind string `json:"kind,omitempty"`
	// WarmUp is the number of first steps over which the rate rises linearly to
	// its full value: step 0 has 1/WarmUp of it, step WarmUp-1 all. 0 is none.
	WarmUp int `json:"warm_up,omitempty"`
	// Every and Factor belong to "step": after each Every steps past the
	// warm-up the rate is multiplied by Factor, 0 < Factor <= 1.
	Every  int     `json:"every,omitempty"`
	Factor float64 `json:"factor,omitempty"`
	// Steps and Floor belong to "cosine": from the end of the warm-up to step
	// Steps the rate falls along half a cosine to Floor times its full value,
	// 0 <= Floor <= 1, and stays there (Loshchilov and Hutter, "SGDR", 2017,
	// equation 5, one period).
	Steps int     `json:"steps,omitempty"`
	Floor float64 `json:"floor,omitempty"`
}

// Validate reports everything that is wrong with the schedule, in one error.
func (s Schedule) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.WarmUp < 0 {
		bad("warm_up %d: want at least 0", s.WarmUp)
	}
	switch s.Kind {
	case "", Constant:
	case StepWise:
		if s.Every < 1 {
			bad("every %d: want at least 1 step", s.Every)
		}
		if !(s.Factor > 0 && s.Factor <= 1) {
			bad("factor %v: want above 0 and at most 1", s.Factor)
		}
	case Cosine:
		if s.Steps <= s.WarmUp {
			bad("steps %d: want more than the %d of the warm-up", s.Steps, s.WarmUp)
		}
		if !(s.Floor >= 0 && s.Floor <= 1) {
			bad("floor %v: want 0 to 1", s.Floor)
		}
	default:
		bad("kind %q: want one of %s", s.Kind, strings.Join(ScheduleKinds(), ", "))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("learning-rate schedule: %w", err)
	}
	return nil
}

// Rate is the learning rate of a step, counted from 0, where base is the full
// rate. It depends on nothing else, so a resumed training takes the same steps.
func (s Schedule) Rate(base float64, step int) float64 {
	if step < s.WarmUp {
		return base * float64(step+1) / float64(s.WarmUp)
	}
	after := step - s.WarmUp
	switch s.Kind {
	case StepWise:
		return base * math.Pow(s.Factor, float64(after/s.Every))
	case Cosine:
		share := min(1, float64(after)/float64(s.Steps-s.WarmUp))
		half := (1 + math.Cos(math.Pi*share)) / 2
		return base * (s.Floor + float64((1-s.Floor)*half))
	default:
		return base
	}
}

// NeedsLength reports whether the rates depend on the length of the training,
// so that a longer training is another one, not its continuation.
func (s Schedule) NeedsLength() bool { return s.Kind == Cosine }
