// Package invariants says whether checks are compiled in that are too costly, or too
// strict, for programs at work: go test -tags invariants.
//
//	if invariants.Enabled && !sorted(x) {
//		panic("...")
//	}
//
// Enabled is a constant, so that a check costs nothing where it is off.
package invariants
