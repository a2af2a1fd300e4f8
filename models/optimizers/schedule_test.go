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
	cosine := optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 4, Steps: 104, Floor: 0.1}
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
		{optimizers.Schedule{Kind: optimizers.Cosine, Steps: 3}, 1, 6}, // (1 + cos 60°)/2 = 3/4
	}
	for _, c := range cases {
		if err := c.schedule.Validate(); err != nil {
			t.Errorf("%+v: %v", c.schedule, err)
		}
		if got := c.schedule.Rate(8, c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: rate %v at step %d, want %v", c.schedule, got, c.step, c.want)
		}
	}
	if !cosine.NeedsLength() || stepWise.NeedsLength() {
		t.Error("of the two only the cosine needs the length of the training")
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	cases := []struct {
		schedule optimizers.Schedule
		want     string
	}{
		{optimizers.Schedule{Kind: "linear"}, `kind "linear": want one of constant, step, cosine`},
		{optimizers.Schedule{WarmUp: -1}, "warm_up -1: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Factor: 0.5}, "every 0: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Every: 3, Factor: 1.5}, "factor 1.5: want"},
		{optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 5, Steps: 5}, "steps 5: want more than the 5"},
		{optimizers.Schedule{Kind: optimizers.Cosine, Steps: 5, Floor: math.NaN()}, "floor NaN: want"},
	}
	for _, c := range cases {
		if err := c.schedule.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q in it", c.schedule, err, c.want)
		}
	}
}
