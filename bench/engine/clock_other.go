//go:build !linux

package engine

import "time"

// threadTime is the time that has passed: this system has no simple way to tell
// a thread's share of it.
func threadTime() time.Duration { return time.Since(start) }
