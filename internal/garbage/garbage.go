// Package garbage keeps a process with a small heap from collecting garbage all the
// time.
//
// Go collects whenever the heap has grown by what lived after the last collection.
// That is right for a worker that holds models. A coordinator, or a worker whose
// tasks are small, lives in a few MiB, and would collect many times a second to save
// as little:
//
//	garbage.Allow(32 << 20) // in main
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Allow lets garbage come to about so many bytes before it is collected, or to as
// much as lives if that is more, as ever. A memory limit (debug.SetMemoryLimit) still
// has it collected earlier. Allow does nothing where GOGC says how to collect.
func Allow(bytes int64) {
	if os.Getenv("GOGC") == "" {
		pace{bytes: bytes, percent: defaultPercent}.next()
	}
}

const (
	// defaultPercent is Go's own.
	defaultPercent = 100
	// leastHeap is what Go takes for the heap if less lives.
	leastHeap = 4 << 20
)

// pace is how collections follow one another.
type pace struct {
	bytes   int64 // of garbage
	percent int   // of what lives, in force
}

// next keeps the pace from the next collection on, which finds the object gone.
func (p pace) next() {
	type object struct{ _ *byte } // without a pointer it could share its place
	runtime.AddCleanup(new(object), func(p pace) { p.keep().next() }, p)
}

// keep sets the percentage right after a collection.
func (p pace) keep() pace {
	percent := percentFor(p.bytes, scanned())
	if percent == p.percent {
		return p
	}
	if debug.SetGCPercent(percent) < 0 {
		debug.SetGCPercent(-1) // somebody has stopped collecting for a while
		return p
	}
	return pace{p.bytes, percent}
}

// percentFor is the percentage by which garbage may come to so many bytes where
// live bytes are left after a collection. It has few values, for a new one stops
// the process for a moment.
func percentFor(garbage, live int64) int {
	const step = 50
	percent := garbage * 100 / max(live, leastHeap)
	return int(max(percent/step*step, defaultPercent))
}

// scanned is what Go takes the percentage of: what lived in the heap after the last
// collection, stacks and global variables.
func scanned() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	sum := int64(0)
	for _, s := range samples {
		sum += int64(s.Value.Uint64())
	}
	return sum
}
