//go:build !linux

package attacks

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
