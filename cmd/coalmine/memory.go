package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"coalmine/internal/childprocess"
)

// memoryFlag is the memory limit of a process that executes tasks. Its zero value selects
// memoryFor.
type memoryFlag struct {
	set   bool
	bytes int64 // 0: no limit
}

// works adds the flags of a command whose process executes tasks.
func (g *global) works(f *pflag.FlagSet) {
	f.TextVar(&g.memory, "memory", &memoryFlag{}, "memory of this process, such as 2GiB: beyond it tasks are handed back; none is no limit, auto nine tenths of the container's limit, or where there is none of the machine's memory times slots / cores")
	mayWrite(f, &g.writable)
	f.StringSliceVar(&g.readable, "commands-may-read-env", nil, "environment variable that commands of experiments get if training.environment names it, such as HF_TOKEN; * allows any; repeatable (a home without --redis allows any)")
}

// MarshalText implements encoding.TextMarshaler.
func (m *memoryFlag) MarshalText() ([]byte, error) {
	switch {
	case !m.set:
		return []byte("auto"), nil
	case m.bytes == 0:
		return []byte("none"), nil
	}
	return []byte(humanize.IBytes(uint64(m.bytes))), nil
}

// minMemory is less than the memory of an idle worker, in bytes.
const minMemory = 64 << 20

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memoryFlag) UnmarshalText(text []byte) error {
	switch string(text) {
	case "auto":
		*m = memoryFlag{}
		return nil
	case "none":
		*m = memoryFlag{set: true}
		return nil
	}
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n < minMemory || n > math.MaxInt64 {
		return errors.New("expected a size of at least 64MiB, such as 512MiB or 2GiB, or none, or auto")
	}
	*m = memoryFlag{set: true, bytes: int64(n)}
	return nil
}

// limit returns the number of bytes for the given number of slots; 0 means no limit.
func (m *memoryFlag) limit(slots int) int64 {
	if m.set {
		return m.bytes
	}
	return memoryFor(slots, runtime.NumCPU(), childprocess.OwnGroup().Limit, machineMemory("/proc/meminfo"))
}

// memoryFor returns the default memory limit of a worker in bytes: nine tenths of its own memory, 0
// if that is unknown. A control group with a memory limit, such as a container, belongs to the
// worker. Of a machine's memory the worker gets its slots' share of the cores, because other cores
// serve other workers.
func memoryFor(slots, cores int, group, machine int64) int64 {
	share := machine / int64(cores) * int64(min(slots, cores))
	if group > 0 && (group < machine || machine == 0) {
		share = group
	}
	return share / 10 * 9
}

// machineMemory reads the size of the machine's memory in bytes; 0 if the file does not contain it.
func machineMemory(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}
