//go:build !linux

package timing

import "time"

func idle() (time.Duration, bool) { return 0, false }
