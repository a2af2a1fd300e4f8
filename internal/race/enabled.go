//go:build race

package race

// Enabled says that the race detector watches the program.
const Enabled = true
