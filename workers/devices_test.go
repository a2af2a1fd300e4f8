package workers

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks"
)

func ofGPUs(names ...string) *devices {
	d := &devices{slots: 2}
	for _, name := range names {
		d.gpus = append(d.gpus, gpu{name: name})
	}
	return d
}

// visible is the GPUs that an attempt sees, "none" without any.
func visible(variables []string) string {
	for _, v := range variables {
		if list, found := strings.CutPrefix(v, visibleDevices+"="); found {
			return list
		}
	}
	return "none"
}

func TestAttemptsAtATimeDoNotTakeTheSameGPUs(t *testing.T) {
	t.Parallel()
	d := ofGPUs("3", "5", "6", "7")
	first, back := d.take(tasks.GPU, nil)
	second, _ := d.take(tasks.GPU, nil)
	if visible(first) != "3,5" || visible(second) != "6,7" {
		t.Errorf("two attempts have %s and %s of four", visible(first), visible(second))
	}
	back()
	if third, _ := d.take(tasks.GPU, nil); visible(third) != "3,5" {
		t.Errorf("the next has %s, want those that were given back", visible(third))
	}
	if of, _ := d.take(tasks.Compute, nil); visible(of) != "none" {
		t.Errorf("a task without GPUs is told of %s", visible(of))
	}
	if of, _ := d.take(tasks.GPU, []string{visibleDevices}); visible(of) != "none" {
		t.Errorf("%s stands in place of the variable that the experiment passes on", visible(of))
	}
}

func TestMoreSlotsThanGPUsShareThem(t *testing.T) {
	t.Parallel()
	d := ofGPUs("0")
	for range 2 {
		if of, _ := d.take(tasks.GPU, nil); visible(of) != "0" {
			t.Errorf("an attempt has %s, want the one that there is", visible(of))
		}
	}
	if of, _ := ofGPUs().take(tasks.GPU, nil); visible(of) != "none" {
		t.Errorf("without GPUs an attempt has %s", visible(of))
	}
}

func TestSlotsShareProcessors(t *testing.T) {
	t.Setenv("MKL_NUM_THREADS", "7")
	of, _ := (&devices{slots: 1 << 20}).take(tasks.Compute, nil)
	if !slices.Contains(of, "OMP_NUM_THREADS=1") || !slices.Contains(of, "OPENBLAS_NUM_THREADS=1") {
		t.Errorf("%v, want one thread for each of many slots", of)
	}
	if slices.ContainsFunc(of, func(v string) bool { return strings.HasPrefix(v, "MKL_") }) {
		t.Errorf("%v, want the worker's own MKL_NUM_THREADS", of)
	}
}
