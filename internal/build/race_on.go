//go:build race

package build

// Race reports that the race detector is enabled.
const Race = true
