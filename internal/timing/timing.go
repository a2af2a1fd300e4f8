// Package timing measures how much work something is on a machine that also does other work.
package timing

import "time"

// Children is how many seconds of a processor the processes take that something starts and that end
// within it; where the system does not tell, how long it takes. Nothing else may start processes
// meanwhile.
func Children(do func() error) (float64, error) {
	began, before := time.Now(), children()
	err := do()
	if used := children() - before; used > 0 {
		return used.Seconds(), err
	}
	return time.Since(began).Seconds(), err
}
