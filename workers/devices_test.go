package workers

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
)

func ofGPUs(slots int, names ...string) *devices {
	var found []queue.Device
	for _, name := range names {
		found = append(found, queue.Device{ID: name})
	}
	return newDevices(slots, []string{"compute", "gpu"}, found)
}

// visible is the GPUs of a share, "none" without any.
func visible(of share) string {
	if len(of.gpus) == 1 {
		return strings.TrimPrefix(of.gpus[0], visibleDevices+"=")
	}
	return "none"
}

func TestConcurrentAttemptsGetDistinctGPUs(t *testing.T) {
	t.Parallel()
	d := ofGPUs(2, "3", "5", "6", "7")
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

// Each slot has a GPU of its own, however many slots there are.
func TestGPUSlotsAreAtMostTheGPUs(t *testing.T) {
	t.Parallel()
	both, cores := []string{"compute", "gpu"}, runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		slots, gpus int
		classes     []string
		all, ofGPU  int
	}{
		{0, 3, []string{"gpu"}, 3, 3}, {9, 3, []string{"gpu"}, 3, 3}, {2, 3, []string{"gpu"}, 2, 2},
		{9, 3, both, 9, 3}, {2, 3, both, 2, 2}, {0, cores + 1, both, cores, cores + 1},
		{5, 0, both, 5, 5}, {0, 0, []string{"gpu"}, cores, cores},
	} {
		d := newDevices(c.slots, c.classes, make([]queue.Device, c.gpus))
		w := queue.Worker{Slots: d.slots, ClassSlots: d.classSlots()}
		if w.SlotsOf("compute") != c.all || w.SlotsOf("gpu") != c.ofGPU {
			t.Errorf("%d slots and %d GPUs for %v: %d slots, %d of the class gpu; want %d and %d", c.slots, c.gpus, c.classes, w.SlotsOf("compute"), w.SlotsOf("gpu"), c.all, c.ofGPU)
		}
		taken := map[string]bool{}
		for range d.gpuSlots {
			of, _ := d.take(tasks.GPU, nil)
			if ids := visible(of); c.gpus == 0 && ids != "none" {
				t.Errorf("without GPUs an attempt has %s", ids)
			}
			taken[visible(of)] = true
		}
		for i, g := range d.gpus {
			if g.attempts > 1 {
				t.Errorf("%+v: %d attempts have GPU %d", c, g.attempts, i)
			}
		}
	}
}

// borrower records the variables of the programs that it lends.
type borrower struct{ set []string }

func (b *borrower) Borrow(_ context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	b.set = append(b.set, strings.Join(s.Set, " "))
	return nil, nil
}

// Programs outlive the attempts that borrow them, so that a pool must tell those of different GPUs apart.
func TestClientProgramsSeeGPUsOfTheirAttempt(t *testing.T) {
	t.Parallel()
	d, b := ofGPUs(0, "GPU-a", "GPU-b"), &borrower{}
	for range 2 {
		of, _ := d.take(tasks.GPU, nil)
		_, _ = onGPUs{b, of}.Borrow(t.Context(), clientprograms.Setting{})
	}
	if want := []string{visibleDevices + "=GPU-a", visibleDevices + "=GPU-b"}; !slices.Equal(b.set, want) {
		t.Errorf("they see %q, want %q", b.set, want)
	}
}

// A call in one lane awaits one in the other, so that this ends only if both slots work.
func TestAttemptBorrowsCoreOfIdleSlot(t *testing.T) {
	t.Parallel()
	d := newDevices(2, []string{"compute", "gpu"}, nil)
	_, back := d.take(tasks.Compute, nil)
	defer back()
	met := make(chan bool)
	must.Do(t, d.cores.Each(t.Context(), 2, func(_ context.Context, lane, _ int) error {
		if lane == 0 {
			met <- true
		} else {
			<-met
		}
		return nil
	}))
	_, other := d.take(tasks.GPU, nil)
	defer other()
	must.Do(t, d.cores.Each(t.Context(), 2, func(_ context.Context, lane, _ int) error {
		if lane > 0 {
			t.Error("the core of a slot at work was lent")
		}
		return nil
	}))
}

func TestSlotsShareProcessors(t *testing.T) {
	t.Setenv("MKL_NUM_THREADS", "7")
	taken, _ := (&devices{slots: 1 << 20}).take(tasks.Compute, nil)
	of := taken.threads
	if !slices.Contains(of, "OMP_NUM_THREADS=1") || !slices.Contains(of, "OPENBLAS_NUM_THREADS=1") {
		t.Errorf("%v, want one thread for each of many slots", of)
	}
	if slices.ContainsFunc(of, func(v string) bool { return strings.HasPrefix(v, "MKL_") }) {
		t.Errorf("%v, want the worker's own MKL_NUM_THREADS", of)
	}
}

// fakeSMI has nvidia-smi be a script, "" for none at all.
func fakeSMI(t *testing.T, script string) {
	t.Helper()
	directory := t.TempDir()
	if script != "" {
		must.Do(t, os.WriteFile(filepath.Join(directory, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o700))
	}
	t.Setenv("PATH", directory)
	t.Setenv(visibleDevices, "") // which the end of the test undoes
	os.Unsetenv(visibleDevices)
}

const twoGPUs = `echo "GPU-aaaa1, NVIDIA H100 80GB HBM3, 81559, 535.104.05"; echo "GPU-bbbb2, NVIDIA GH200 480GB, [N/A], 535.104.05"`

func TestGPUsFromNvidiaSMI(t *testing.T) {
	fakeSMI(t, twoGPUs)
	first := queue.Device{ID: "GPU-aaaa1", Name: "NVIDIA H100 80GB HBM3", MemoryBytes: 81559 << 20, Driver: "535.104.05"}
	second := queue.Device{ID: "GPU-bbbb2", Name: "NVIDIA GH200 480GB", Driver: "535.104.05"}
	if found, err := findGPUs(t.Context(), t.TempDir()); err != nil || !slices.Equal(found, []queue.Device{first, second}) {
		t.Errorf("%+v, %v", found, err)
	}
	// The worker's variable selects GPUs, which keep the names given there.
	t.Setenv(visibleDevices, "1,GPU-a,MIG-c,-1,0")
	part := queue.Device{ID: "MIG-c"}
	second.ID, first.ID = "1", "GPU-a"
	if found, err := findGPUs(t.Context(), t.TempDir()); err != nil || !slices.Equal(found, []queue.Device{second, first, part}) {
		t.Errorf("%+v, %v", found, err)
	}
	t.Setenv(visibleDevices, "-1")
	if found, err := findGPUs(t.Context(), t.TempDir()); err == nil || err.Error() != `CUDA_VISIBLE_DEVICES="-1" selects no GPU` {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestGPUsFromDriverWithoutNvidiaSMI(t *testing.T) {
	fakeSMI(t, "")
	driver := t.TempDir()
	for name, text := range map[string]string{
		"version":                       "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.3.0\n",
		"gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 45\nGPU UUID: \t GPU-cccc3\n",
		"gpus/0000:02:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-????????-????-????-????-????????????\n",
	} {
		path := filepath.Join(driver, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want := []queue.Device{{ID: "GPU-cccc3", Name: "NVIDIA A100-SXM4-40GB", Driver: "535.104.05"}, {ID: "1", Name: "NVIDIA A100-SXM4-40GB", Driver: "535.104.05"}}
	if found, err := findGPUs(t.Context(), driver); err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestMissingGPUErrorNamesCause(t *testing.T) {
	for script, want := range map[string]string{
		"": "nvidia-smi is not in the PATH, and DRIVER lists no GPU",
		"echo NVIDIA-SMI has failed because it could not communicate with the driver; exit 9": `nvidia-smi failed (exit status 9) and printed "NVIDIA-SMI has failed because it could not communicate with the driver", and DRIVER lists no GPU`,
		"echo No devices were found": `nvidia-smi printed "No devices were found", and DRIVER lists no GPU`,
	} {
		fakeSMI(t, script)
		driver := t.TempDir()
		if found, err := findGPUs(t.Context(), driver); err == nil || err.Error() != strings.ReplaceAll(want, "DRIVER", driver) || len(found) > 0 {
			t.Errorf("%q: %v, %v; want %q", script, found, err, want)
		}
	}
}
