//go:build race

package race

// Enabled reports that the race detector is enabled.
const Enabled = true
