//go:build !linux

package engine

import "time"

// threadTime returns the elapsed time: this system has no simple way to get a thread's share of it.
func threadTime() time.Duration { return time.Since(start) }
