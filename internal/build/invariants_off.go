//go:build !invariants

// These files report whether checks are compiled in that are too costly, or
// too strict, for production: go test -tags invariants.
//
//	if build.Invariants && !sorted(x) {
//		panic("...")
//	}
//
// Invariants is a constant, so a disabled check costs nothing.

package build

// Invariants reports whether the build has the tag invariants.
const Invariants = false
