package policy

import (
	"slices"
	"testing"
	"time"

	"coalmine/storage"
	"coalmine/workflows/runs"
)

func TestStragglesBeyondThriceSiblingsAndTenSeconds(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		seconds, median float64
		siblings        int
		want            bool
	}{
		{100, 10, 2, false}, // too few are known
		{100, 10, 3, true},
		{30, 10, 3, false},
		{30.1, 10, 3, true},
		{9, 0.1, 32, false},
		{10.1, 0.1, 32, true},
	} {
		if got := Straggles(x.seconds, x.median, x.siblings); got != x.want {
			t.Errorf("%v s beside %d siblings of %v s: %v, want %v", x.seconds, x.siblings, x.median, got, x.want)
		}
	}
}

func TestPausesGrowToABound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := Backoff(n); got != want {
			t.Errorf("after %d tries: %s, want %s", n, got, want)
		}
	}
	for i := range 256 {
		key := storage.Key{}
		key.Digest[0] = byte(i)
		before := time.Duration(0)
		for n := 1; n < 100; n++ {
			pause := ReturnedPause(key, n)
			if pause < before || pause < 100*time.Millisecond || pause > 7500*time.Millisecond {
				t.Fatalf("handed back %d times: %s, after %s", n, pause, before)
			}
			before = pause
		}
	}
}

func TestMemoryDeathsEndTaskSooner(t *testing.T) {
	t.Parallel()
	near, far, unknown := runs.Death{MemoryBytes: 90, MemoryLimitBytes: 100}, runs.Death{MemoryBytes: 89, MemoryLimitBytes: 100}, runs.Death{MemoryBytes: 1 << 40}
	for _, x := range []struct {
		deaths []runs.Death
		want   bool
	}{
		{slices.Repeat([]runs.Death{near}, MaxMemoryDeaths), true},
		{slices.Repeat([]runs.Death{near, far, unknown}, MaxMemoryDeaths-1), false},
		{slices.Repeat([]runs.Death{far}, MaxDeaths-1), false},
		{slices.Repeat([]runs.Death{far, unknown}, MaxDeaths/2), true},
	} {
		if got := DeathsLeft(x.deaths) <= 0; got != x.want {
			t.Errorf("%d deaths %v are too many: %v, want %v", len(x.deaths), x.deaths, got, x.want)
		}
	}
	if DeathPause(2) != 0 || DeathPause(3) != time.Second || DeathPause(20) != time.Minute {
		t.Errorf("pauses of %v, %v and %v", DeathPause(2), DeathPause(3), DeathPause(20))
	}
}

func TestQuickTrainingsGetTheirShareOfSlots(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ slots, quick, others, want int }{
		{1, 1, 1, 1}, {2, 1, 1, 1}, {8, 1, 1, 4}, {8, 1, 2, 3}, {8, 3, 1, 6}, {3, 1, 5, 1},
	} {
		if got := Share(x.slots, x.quick, x.others); got != x.want {
			t.Errorf("of %d slots %d quick trainings beside %d others get %d, want %d", x.slots, x.quick, x.others, got, x.want)
		}
	}
	if Yields(0.9, 0.1) || Yields(10, 6) || !Yields(10, 5) || !Yields(1, 0.5) {
		t.Error("a task yields if it takes a second at least, to those that take half as long")
	}
}

func TestDeathsAreCountedByCause(t *testing.T) {
	t.Parallel()
	near, far := runs.Death{MemoryBytes: 95, MemoryLimitBytes: 100}, runs.Death{MemoryBytes: 10, MemoryLimitBytes: 100}
	for want, deaths := range map[string][]runs.Death{
		"died 1 time near its memory limit (at most 3)": {near}, "died 2 times for other reasons (at most 20)": {far, far},
		"died 1 time near its memory limit (at most 3) and 2 times for other reasons (at most 20)": {far, near, far},
	} {
		if got := DeathsText(deaths); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
