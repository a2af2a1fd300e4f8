//go:build !race

// Package race reports whether the race detector is enabled. Under it memory grows
// several times over, and a sync.Pool drops values at random.
package race

// Enabled reports that the race detector is enabled.
const Enabled = false
