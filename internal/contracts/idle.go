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
