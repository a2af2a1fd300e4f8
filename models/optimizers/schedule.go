package optimizers

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"coalmine/internal/registry"
)

// ScheduleKind names the course of a learning rate after its warm-up.
type ScheduleKind string

// Kinds of schedules.
const (
	Constant ScheduleKind = "constant"
	StepWise ScheduleKind = "step"
	Cosine   ScheduleKind = "cosine"
)

var courses = registry.New("schedule", func(c ScheduleShape) ScheduleKind { return c.Kind }, constant, stepWise, cosine)

// ScheduleShape describes a kind of schedule.
type ScheduleShape struct {
	Kind ScheduleKind
	// Summary describes the course of the rate in one line; Source cites it.
	Summary, Source string
	// Fields are the JSON names of the fields of Schedule that this kind has and not all kinds
	// have.
	Fields []string
	// NeedsLength reports that the rates depend on the length of the training, so that a longer
	// training does not continue a shorter one.
	NeedsLength bool

	check func(Schedule) []error
	// share returns the share of the full rate, after steps past the warm-up, for a valid schedule.
	share func(s Schedule, after int) float64
}

// Courses lists the kinds of schedules.
func Courses() []ScheduleShape { return courses.Entries() }

// Choices lists the kinds for an experiment file.
func (ScheduleKind) Choices() []string { return courses.Words() }

// Schedule is the course of a learning rate over training: a warm-up, then the course of Kind. The
// zero value is a constant rate.
type Schedule struct {
	// Kind is the course; empty means Constant.
	Kind ScheduleKind `json:"kind,omitempty"`
	// WarmUp is the number of first steps over which the rate rises linearly to its full value:
	// step 0 has 1/WarmUp of it, step WarmUp-1 all of it. 0 means no warm-up.
	WarmUp int `json:"warm_up,omitempty"`
	// Every and Factor belong to StepWise: every Every steps past the warm-up, the rate is
	// multiplied by Factor, 0 < Factor <= 1.
	Every  int     `json:"every,omitempty"`
	Factor float64 `json:"factor,omitempty"`
	// Last and Floor belong to Cosine: from the end of the warm-up to step Last, the last of the
	// training, the rate falls to Floor times its full value, 0 <= Floor <= 1, and stays there.
	Last  int     `json:"last,omitempty"`
	Floor float64 `json:"floor,omitempty"`
}

var constant = ScheduleShape{
	Kind:    Constant,
	Summary: "the full rate",
	check:   func(Schedule) []error { return nil },
	share:   func(Schedule, int) float64 { return 1 },
}

var stepWise = ScheduleShape{
	Kind:    StepWise,
	Summary: "the full rate times factor^floor(t/every), t steps after the warm-up",
	Fields:  []string{"every", "factor"},
	check: func(s Schedule) (problems []error) {
		if s.Every < 1 {
			problems = append(problems, fmt.Errorf("every %d: want at least 1 step", s.Every))
		}
		if !(s.Factor > 0 && s.Factor <= 1) {
			problems = append(problems, fmt.Errorf("factor %v: want above 0 and at most 1", s.Factor))
		}
		return problems
	},
	share: func(s Schedule, after int) float64 { return math.Pow(s.Factor, float64(after/s.Every)) },
}

// cosine is equation 5 of Loshchilov and Hutter, "SGDR", 2017, over one period: T_cur counts the T
// steps after the warm-up from 0 to T-1, and the period is T-1, so that the first step has the full
// rate and the last the floor.
var cosine = ScheduleShape{
	Kind:        Cosine,
	Summary:     "the full rate times floor + (1 - floor) (1 + cos(pi t/(T-1)))/2, t steps after the warm-up, of T there are",
	Source:      "Loshchilov and Hutter 2017, equation 5",
	Fields:      []string{"floor"},
	NeedsLength: true,
	check: func(s Schedule) (problems []error) {
		if s.Last <= s.WarmUp {
			problems = append(problems, fmt.Errorf("%d steps with a warm-up of %d: want at least 2 after the warm-up, the first at the full rate and the last at the floor", s.Last+1, s.WarmUp))
		}
		if !(s.Floor >= 0 && s.Floor <= 1) {
			problems = append(problems, fmt.Errorf("floor %v: want 0 to 1", s.Floor))
		}
		return problems
	},
	share: func(s Schedule, after int) float64 {
		done := min(1, float64(after)/float64(s.Last-s.WarmUp))
		half := (1 + math.Cos(math.Pi*done)) / 2
		return s.Floor + float64((1-s.Floor)*half)
	},
}

func (s Schedule) course() (ScheduleShape, error) { return courses.Find(cmp.Or(s.Kind, Constant)) }

// Validate reports all errors of the schedule at once.
func (s Schedule) Validate() error {
	course, err := s.course()
	if err != nil {
		return fmt.Errorf("learning rate: %w", err)
	}
	problems := course.check(s)
	if s.WarmUp < 0 {
		problems = append(problems, fmt.Errorf("warm_up %d: want at least 0", s.WarmUp))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("learning-rate schedule: %w", err)
	}
	return nil
}

// Rate returns the learning rate of a step, counted from 0, given the full rate base. It depends on
// no other state, so a resumed training takes the same steps. It may panic for a schedule that
// Validate rejects.
func (s Schedule) Rate(base float64, step int) float64 {
	if step < s.WarmUp {
		return base * float64(step+1) / float64(s.WarmUp)
	}
	course, err := s.course()
	if err != nil {
		panic(err)
	}
	return base * course.share(s, step-s.WarmUp)
}

// For returns the schedule of a training of a number of steps.
func (s Schedule) For(steps int) Schedule {
	if course, err := s.course(); err == nil && course.NeedsLength {
		s.Last = steps - 1
	}
	return s
}
