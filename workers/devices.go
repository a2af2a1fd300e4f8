package workers

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"coalmine/internal/childprocess"
	"coalmine/tasks"
)

// visibleDevices is the variable by which programs learn of GPUs.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// devices shares the processors and GPUs of a machine out between the attempts of a worker, so that the
// commands of two attempts do not take the same.
type devices struct {
	slots int

	mu   sync.Mutex
	gpus []gpu
}

// gpu is a device with how many attempts have it.
type gpu struct {
	name     string
	attempts int
}

func newDevices(slots int) *devices {
	d := &devices{slots: max(1, slots)}
	for _, name := range gpuNames() {
		d.gpus = append(d.gpus, gpu{name: name})
	}
	return d
}

// gpuNames are those that the environment of this process names, or else all of NVIDIA's driver.
func gpuNames() (names []string) {
	if listed, set := os.LookupEnv(visibleDevices); set {
		return strings.FieldsFunc(listed, func(r rune) bool { return r == ',' || r == ' ' })
	}
	found, _ := filepath.Glob("/proc/driver/nvidia/gpus/*") // none without a driver
	for i := range found {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

// take returns the variables of the commands of an attempt, and a function that gives its devices
// back. keep names variables that the experiment passes on: they stay as they are.
func (d *devices) take(class tasks.Class, keep []string) (variables []string, giveBack func()) {
	variables = childprocess.Threads(max(1, runtime.NumCPU()/d.slots))
	if class != tasks.GPU || slices.Contains(keep, visibleDevices) {
		return variables, func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.leastUsed()
	var names []string
	for _, i := range taken {
		d.gpus[i].attempts++
		names = append(names, d.gpus[i].name)
	}
	if len(names) > 0 {
		variables = append(variables, fmt.Sprintf("%s=%s", visibleDevices, strings.Join(names, ",")))
	}
	return variables, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, i := range taken {
			d.gpus[i].attempts--
		}
	}
}

// leastUsed are the places of a slot's share of the GPUs, at least of one if there are any: those that the
// fewest attempts have, in their order.
func (d *devices) leastUsed() []int {
	places := make([]int, len(d.gpus))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return d.gpus[a].attempts - d.gpus[b].attempts })
	places = places[:min(len(places), max(1, len(places)/d.slots))]
	slices.Sort(places)
	return places
}
