// Package timing measures how long processes take.
package timing

import "time"

// Children returns how many seconds do takes, or the seconds of processors that the processes take
// which it starts and waits for, if these are more: a process that waits takes its time, too.
// Nothing else may start processes meanwhile.
func Children(do func() error) (float64, error) {
	began, before := time.Now(), children()
	err := do()
	return max(children()-before, time.Since(began)).Seconds(), err
}
