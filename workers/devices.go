package workers

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"coalmine/internal/childprocess"
	"coalmine/internal/goroutines"
	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
)

// visibleDevices is the variable that names the GPUs a program may use.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// devices divides the processors and GPUs of a machine among the attempts of a worker, so that the commands
// of two attempts do not use the same ones.
type devices struct {
	slots    int // per class
	gpuSlots int // of class gpu, at most one for each GPU if there are any
	// cores has one core for each slot; an attempt has one, and may borrow idle ones.
	cores *goroutines.Cores

	mu   sync.Mutex
	gpus []gpu
}

// gpu is a device and the number of attempts that use it.
type gpu struct {
	queue.Device
	attempts int
}

// newDevices returns the devices for a number of slots; 0 is one slot for each core, and in class gpu one
// for each GPU.
func newDevices(slots int, classes []string, found []queue.Device) *devices {
	d := &devices{slots: cmp.Or(slots, runtime.GOMAXPROCS(0))}
	d.gpuSlots = d.slots
	if n := len(found); n > 0 {
		d.gpuSlots = min(n, cmp.Or(slots, n))
	}
	if slices.Equal(classes, []string{string(tasks.GPU)}) {
		d.slots = d.gpuSlots
	}
	d.cores = goroutines.NewCores(d.slots)
	for _, device := range found {
		d.gpus = append(d.gpus, gpu{Device: device})
	}
	return d
}

// classSlots returns the slots of classes with a different number; nil if there are none.
func (d *devices) classSlots() map[string]int {
	if d.gpuSlots == d.slots {
		return nil
	}
	return map[string]int{string(tasks.GPU): d.gpuSlots}
}

func (d *devices) found() (all []queue.Device) {
	for _, g := range d.gpus {
		all = append(all, g.Device)
	}
	return all
}

// share is an attempt's part of the machine, as environment variables of its programs.
type share struct{ threads, gpus []string }

// take returns the share of an attempt, and a function that returns its devices. keep names variables that
// the experiment passes on: they stay unchanged.
func (d *devices) take(class tasks.Class, keep []string) (part share, giveBack func()) {
	part.threads = childprocess.Threads(max(1, runtime.NumCPU()/d.slots))
	vacate := d.cores.Occupy()
	if class != tasks.GPU || len(d.gpus) == 0 || slices.Contains(keep, visibleDevices) {
		return part, vacate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.minUsed()
	var ids []string
	for _, i := range taken {
		d.gpus[i].attempts++
		ids = append(ids, d.gpus[i].ID)
	}
	part.gpus = []string{fmt.Sprintf("%s=%s", visibleDevices, strings.Join(ids, ","))}
	return part, func() {
		vacate()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, i := range taken {
			d.gpus[i].attempts--
		}
	}
}

// minUsed returns the indices of a slot's share of the GPUs, at least one, ascending: the GPUs with the
// fewest attempts.
func (d *devices) minUsed() []int {
	places := make([]int, len(d.gpus))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return d.gpus[a].attempts - d.gpus[b].attempts })
	places = places[:max(1, len(places)/d.gpuSlots)]
	slices.Sort(places)
	return places
}

// onGPUs runs programs of the contract client with the GPUs of an attempt visible.
type onGPUs struct {
	clientprograms.Runner
	share
}

func (r onGPUs) Borrow(ctx context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	s.Set = append(slices.Clip(s.Set), r.gpus...)
	return r.Runner.Borrow(ctx, s)
}
