package contracts

import (
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"testing"
)

// A process that sleeps takes its time, also where all processors are busy; one that counts takes that of a processor.
func TestProcessTimeIsLargerOfClockAndCPU(t *testing.T) {
	t.Parallel()
	slept, err := timed(exec.Command("sleep", "0.3").Run)
	if err != nil || slept.clock <= 0 {
		t.Errorf("a process that sleeps 0.3 s takes %+v, %v", slept, err)
	}
	for _, c := range []struct{ clock, processors, want float64 }{
		{16, 0.2, 16}, // it sleeps
		{15, 5, 5},    // it works, and waits for a processor
		{100, 5, 5},
		{4, 5, 5}, // with several threads
	} {
		if got := (took{c.clock, c.processors}).alone(); got != c.want {
			t.Errorf("%+v: alone it takes %g s, want %g", c, got, c.want)
		}
	}
	busy, err := timed(exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run)
	if err != nil || busy.processors == 0 && runtime.GOOS == "linux" {
		t.Errorf("a process that counts takes %+v, %v", busy, err)
	}
	if longer := (took{3, 1}).beyond(took{2, 0.5}); longer != 1 {
		t.Errorf("3 s are %g longer than 2, want 1", longer)
	}
	if longer := (took{3, 5}).beyond(took{2.9, 1}); longer != 4 {
		t.Errorf("5 s of a processor are %g longer than 1, want 4", longer)
	}
	if longer := (took{1, 1}).beyond(took{2, 2}); longer != 0 {
		t.Errorf("1 s is %g longer than 2, want 0", longer)
	}
}

// Little that takes no time says nothing of much: more is tried, up to the most that there is.
func TestMeasureTriesMoreUntilSignificant(t *testing.T) {
	t.Parallel()
	failure := errors.New("none")
	for _, c := range []struct {
		few, more, most, failing int
		want                     []int
	}{
		{1, 8, 1000, 0, []int{1, 8, 128, 1000}},
		{1, 8, 32, 0, []int{1, 8, 32}},
		{32, 128, 20, 0, []int{32}},
		{1, 8, 100, 8, []int{1, 8}},
		{1, 8, 100, 1, []int{1}},
	} {
		var tried []int
		p, err := Measure(c.few, c.more, c.most, func(n int) error {
			tried = append(tried, n)
			if n == c.failing {
				return failure
			}
			return nil
		})
		if !slices.Equal(tried, c.want) || (err != nil) != (c.failing > 0) || p.Each < 0 || p.Start < 0 {
			t.Errorf("%+v: tried %v, %+v, %v", c, tried, p, err)
		}
	}
}
