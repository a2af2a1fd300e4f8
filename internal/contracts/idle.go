package contracts

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// idle returns the total idle time of the machine's processors since it started; ok is false
// if the system does not report it.
func idle() (d time.Duration, ok bool) {
	data, err := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait ..., in hundredths of a second
	if err != nil || len(fields) < 6 {
		return 0, false
	}
	for _, field := range fields[4:6] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, false
		}
		d += time.Duration(ticks) * 10 * time.Millisecond
	}
	return d, true
}

// load returns the mean number of processes of the last minute that work or wait for a processor or a
// disk; 0 if it is unknown.
func load() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	mean, _ := strconv.ParseFloat(first, 64)
	return mean
}
