package audits

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/population"
)

func TestLowestIsByFrequencyThenUsers(t *testing.T) {
	t.Parallel()
	place := func(pu, pe string) population.Placement {
		return population.Placement{Canary: population.Canary{UserProbability: pu, ExampleProbability: pe}, Insertions: 1}
	}
	placed := []population.Placement{
		place("1/5000", "1/100"),  // 2e-6
		place("1/50000", "1/10"),  // 2e-6 too, fewer users
		place("1/50000", "1/100"), // lower, but not memorized
		place("3/50000", "1"),
		{Canary: population.Canary{HeldBack: true}},
		{Canary: population.Canary{UserProbability: "1/1000000", ExampleProbability: "1/100"}}, // never inserted
	}
	m := must.Get(Count(placed, func(canary int) bool { return canary != 2 }))(t)
	if want := (Configuration{UserProbability: 2e-5, ExampleProbability: 0.1}); m.Memorized != 3 || m.Of != 4 || *m.Lowest != want {
		t.Errorf("%d of %d memorized, lowest %+v; want 3 of 4 and %+v", m.Memorized, m.Of, m.Lowest, want)
	}
	if m, err := Count(placed, func(int) bool { return false }); err != nil || m.Lowest.String() != "-" {
		t.Errorf("lowest %s of none (%v)", m.Lowest, err)
	}
}

func TestConfigurationsArePrintedAsInThePapers(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Configuration{
		"4 times":         {InsertedTimes: 4},
		"1/5000, 10%":     {UserProbability: 2e-4, ExampleProbability: 0.1},
		"3/50000, 100%":   {UserProbability: 6e-5, ExampleProbability: 1},
		"1/300, 1/8":      {UserProbability: 1.0 / 300, ExampleProbability: 0.125},
		"7/9, 1/3":        {UserProbability: 7.0 / 9, ExampleProbability: 1.0 / 3},
		"0.123, 1.23e-09": {UserProbability: 0.1234567891234, ExampleProbability: 1.2345678912345e-9},
	} {
		if got := c.String(); got != want {
			t.Errorf("%v is %q, want %q", c, got, want)
		}
	}
}
