package scale

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of the times in /proc, the same on every Linux that Go runs on.
const clockTick = time.Second / 100

// usageOf reads /proc/<pid>/stat; see proc_pid_stat(5).
func usageOf(pid int) usage {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}
	}
	// The second field, the program's name, may hold anything but ends in ")".
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3
	if len(fields) <= rss {
		return usage{}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	return usage{
		cpu: time.Duration(number(utime)+number(stime)) * clockTick,
		rss: number(rss) * int64(os.Getpagesize()),
	}
}
