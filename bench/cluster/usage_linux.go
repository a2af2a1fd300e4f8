package cluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc, the same on every Linux that Go supports.
const clockTick = time.Second / 100

// UsageOf reads a process's usage from the system; see proc_pid_stat(5) and proc_pid_status(5).
func UsageOf(pid int) Usage {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}
	}
	// The second field, the program's name, may contain anything but ends in ")".
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3
	if len(fields) <= rss {
		return Usage{}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	return Usage{
		CPU:      time.Duration(number(utime)+number(stime)) * clockTick,
		Resident: number(rss) * int64(os.Getpagesize()),
		Peak:     statusBytes(pid, "VmHWM:"),
	}
}

func statusBytes(pid int, field string) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(data) {
		if words := bytes.Fields(line); len(words) > 1 && string(words[0]) == field {
			n, _ := strconv.ParseInt(string(words[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// peakOf returns the peak memory of a process that has ended. If its parent had more when
// it started the process, it is the parent's; see getrusage(2).
func peakOf(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}
