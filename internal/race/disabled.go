//go:build !race

// Package race tells tests whether the race detector watches them. Under it memory
// grows several times over, and a sync.Pool drops values at random.
package race

// Enabled says that the race detector watches the program.
const Enabled = false
