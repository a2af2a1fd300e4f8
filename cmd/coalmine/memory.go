package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"coalmine/internal/childprocess"
)

// memoryFlag is the memory limit of a process that executes tasks. Its zero value selects memoryFor.
type memoryFlag struct {
	set   bool
	bytes int64 // 0: no limit
}

// works adds the flags of a command whose process executes tasks.
func (g *global) works(f *pflag.FlagSet) {
	f.TextVar(&g.memory, "memory", &memoryFlag{}, "memory limit of this process, such as 2GiB; above it tasks are handed back; none means no limit, auto nine tenths of the container's limit, or without one, of the machine's memory times slots / cores")
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

// age is a flag for durations in days, such as 30d, or in the forms of time.ParseDuration.
type age time.Duration

// maxDays keeps an age within the range of time.Duration.
const maxDays = 100 * 365

// Set implements pflag.Value.
func (a *age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
		if n > maxDays {
			err = strconv.ErrRange
		}
	}
	if err != nil || d < 0 {
		return fmt.Errorf("expected a time of 0 or more such as 90m, 12h or 30d")
	}
	*a = age(d)
	return nil
}

func (a *age) String() string {
	const day = 24 * time.Hour
	d := time.Duration(*a)
	if d == 0 {
		return "0"
	}
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Type implements pflag.Value; the help shows it.
func (a *age) Type() string { return "duration" }

// directoriesFlag holds existing directories, as absolute paths.
type directoriesFlag []string

func (d *directoriesFlag) String() string { return strings.Join(*d, ",") }

// Type implements pflag.Value.
func (d *directoriesFlag) Type() string { return "directory" }

// Set implements pflag.Value: it adds a directory.
func (d *directoriesFlag) Set(value string) error {
	path, err := filepath.Abs(value)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory; expected an existing one", path)
	}
	*d = append(*d, path)
	return nil
}

// mayWrite adds the flag to processes that run commands of experiments. Their operator, not the
// author of the experiment, chooses the writable directories.
func mayWrite(f *pflag.FlagSet, directories *directoriesFlag) {
	f.Var(directories, "commands-may-write", "additional directory that commands of experiments may write to, such as ~/.cache/huggingface; / means anywhere; repeatable (Linux: others are read-only if the system supports it)")
}
