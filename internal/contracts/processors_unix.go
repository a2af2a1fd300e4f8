//go:build unix

package contracts

import (
	"syscall"
	"time"
)

// processors returns the processor time of this process and of the children it has waited for.
func processors() (d time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			d += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
	return d
}
