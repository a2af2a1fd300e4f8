//go:build race

package engine

// raceDetector: the detector makes sync.Pool drop values at random, so that
// pooled memory shows as allocations.
const raceDetector = true
