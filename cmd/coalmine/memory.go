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

// memoryFlag is how much memory a process that works may use. Its zero value
// leaves that to memoryFor.
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

// leastMemory is less than an idle worker takes.
const leastMemory = 64 << 20

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
	if err != nil || n < leastMemory || n > math.MaxInt64 {
		return errors.New("expected a size of at least 64MiB, such as 512MiB or 2GiB, or none, or auto")
	}
	*m = memoryFlag{set: true, bytes: int64(n)}
	return nil
}

// limit is the number of bytes for the given number of slots, 0 for none.
func (m *memoryFlag) limit(slots int) int64 {
	if m.set {
		return m.bytes
	}
	return memoryFor(slots, runtime.NumCPU(), childprocess.OwnGroup().Limit, machineMemory("/proc/meminfo"))
}

// memoryFor is how many bytes a worker may take unless it is told: nine tenths of its
// own memory, 0 if that is not known. The memory of a control group with a limit, such
// as a container, is all its own. Of a machine's memory it has the share of its slots
// in the cores, since the other cores are for other workers.
func memoryFor(slots, cores int, group, machine int64) int64 {
	share := machine / int64(cores) * int64(min(slots, cores))
	if group > 0 && (group < machine || machine == 0) {
		share = group
	}
	return share / 10 * 9
}

// machineMemory reads the size of the machine's memory in bytes; 0 if the system does
// not tell it there.
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
