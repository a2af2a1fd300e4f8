//go:build invariants

package build

// Invariants reports whether the build has the tag invariants.
const Invariants = true
