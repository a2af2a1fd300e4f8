//go:build unix

package timing

import (
	"syscall"
	"time"
)

// children is the processor time of all processes that have ended and were waited for.
func children() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
