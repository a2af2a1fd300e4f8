// Package invariants reports whether checks are compiled in that are too costly, or
// too strict, for production: go test -tags invariants.
//
//	if invariants.Enabled && !sorted(x) {
//		panic("...")
//	}
//
// Enabled is a constant, so a disabled check costs nothing.
package invariants
