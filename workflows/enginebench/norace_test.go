//go:build !race

package enginebench

const raceDetector = false
