//go:build !race

// These files report whether the race detector is enabled. Under it memory grows
// several times over, and a sync.Pool drops values at random.

package build

// Race reports that the race detector is enabled.
const Race = false
