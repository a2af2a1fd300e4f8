package optimizers_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/models/optimizers"
)

func TestSchedulesGiveTheirRates(t *testing.T) {
	t.Parallel()
	stepWise := optimizers.Schedule{Kind: optimizers.StepWise, WarmUp: 2, Every: 10, Factor: 0.5}
	cosine := optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 4, Last: 104, Floor: 0.1}
	cases := []struct {
		schedule optimizers.Schedule
		step     int
		want     float64
	}{
		{optimizers.Schedule{}, 0, 8},
		{optimizers.Schedule{Kind: optimizers.Constant}, 1e9, 8},
		{optimizers.Schedule{WarmUp: 4}, 0, 2},
		{optimizers.Schedule{WarmUp: 4}, 3, 8},
		{optimizers.Schedule{WarmUp: 4}, 4, 8},
		{stepWise, 0, 4}, {stepWise, 1, 8}, {stepWise, 11, 8}, {stepWise, 12, 4}, {stepWise, 22, 2},
		{cosine, 1, 4}, {cosine, 4, 8}, {cosine, 54, 4.4}, {cosine, 104, 0.8}, {cosine, 1000, 0.8},
		{optimizers.Schedule{Kind: optimizers.Cosine, Last: 3}, 1, 6}, // (1 + cos 60°)/2 = 3/4
	}
	for _, c := range cases {
		if err := c.schedule.Validate(); err != nil {
			t.Errorf("%+v: %v", c.schedule, err)
		}
		if got := c.schedule.Rate(8, c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: rate %v at step %d, want %v", c.schedule, got, c.step, c.want)
		}
	}
}

func TestACosineBeginsAtTheFullRateAndEndsExactlyAtItsFloor(t *testing.T) {
	t.Parallel()
	for _, floor := range []float64{0, 0.1, 1.0 / 3, 1} {
		for _, warmUp := range []int{0, 1, 7} {
			for _, steps := range []int{warmUp + 2, warmUp + 3, warmUp + 1000} {
				s := optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: warmUp, Floor: floor}.For(steps)
				if err := s.Validate(); err != nil {
					t.Fatalf("%+v: %v", s, err)
				}
				if first, last := s.Rate(0.3, warmUp), s.Rate(0.3, steps-1); first != 0.3 || last != 0.3*floor {
					t.Errorf("%d steps, %d of warm-up, floor %v: rates %v and %v after the warm-up and at the end, want %v and %v",
						steps, warmUp, floor, first, last, 0.3, 0.3*floor)
				}
				for step := warmUp + 1; step < steps; step++ {
					if s.Rate(0.3, step) > s.Rate(0.3, step-1) {
						t.Errorf("%+v: the rate rises at step %d", s, step)
					}
				}
			}
		}
	}
}

func TestOnlyTheCosineDependsOnTheLengthOfTheTraining(t *testing.T) {
	t.Parallel()
	for _, c := range optimizers.Courses() {
		s := optimizers.Schedule{Kind: c.Kind, Every: 2, Factor: 0.5}
		if depends := s.For(10) != s.For(11); depends != (c.Kind == optimizers.Cosine) || depends != c.NeedsLength {
			t.Errorf("%s: depends on the length: %v, and its entry says %v", c.Kind, depends, c.NeedsLength)
		}
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	cases := []struct {
		schedule optimizers.Schedule
		want     string
	}{
		{optimizers.Schedule{Kind: "linear"}, `schedule "linear": expected one of constant, step, cosine`},
		{optimizers.Schedule{WarmUp: -1}, "warm_up -1: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Factor: 0.5}, "every 0: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Every: 3, Factor: 1.5}, "factor 1.5: want"},
		{optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 5, Last: 5}, "6 steps with a warm-up of 5: want at least 2 after"},
		{optimizers.Schedule{Kind: optimizers.Cosine, Last: 5, Floor: math.NaN()}, "floor NaN: want"},
	}
	for _, c := range cases {
		if err := c.schedule.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q in it", c.schedule, err, c.want)
		}
	}
}
