// Package garbage decides how much garbage a process lets come together before it
// collects it.
//
// Go collects whenever the heap has grown by what lived after the last collection.
// That is too soon for a process that lives in a few MiB, such as a coordinator: it
// would collect many times a second to save as little. And it is too late for a worker
// that caches models: hundreds of MiB live, the same again would be garbage, and a
// collection costs next to nothing, since arrays of numbers are not searched for
// pointers.
//
//	garbage.Allow(32 << 20) // in main
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Allow lets garbage come to the largest of: so many bytes; the part of the heap that
// a collection searches for pointers, which is what it costs; an eighth of what lives.
// A memory limit (debug.SetMemoryLimit) still has it collected earlier. Allow does
// nothing where GOGC says how to collect.
func Allow(bytes int64) {
	if os.Getenv("GOGC") == "" {
		pace{bytes: bytes, percent: defaultPercent}.next()
	}
}

// Bound has garbage collected once there are about so many bytes of it, even if the heap
// to search for pointers is larger: a process of large heaps takes less memory and more
// time. What Allow lets come, and an eighth of what lives, may come as before.
func Bound(bytes int64) { bound.Store(bytes) }

// bound is 0 if there is none.
var bound atomic.Int64

const (
	// defaultPercent is Go's own.
	defaultPercent = 100
	// leastHeap is what Go takes for the heap if less lives.
	leastHeap = 4 << 20
	// leastShare is the part of what lives that may always come in garbage: with less
	// one collection would follow the other.
	leastShare = 8
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
	percent := percentFor(p.bytes, bound.Load(), afterCollection())
	if percent == p.percent {
		return p
	}
	if debug.SetGCPercent(percent) < 0 {
		debug.SetGCPercent(-1) // somebody has stopped collecting for a while
		return p
	}
	return pace{p.bytes, percent}
}

// heap is what a collection has left, in bytes.
type heap struct {
	live     int64 // what Go takes the percentage of: objects, stacks and global variables
	searched int64 // the part of the objects in which there may be pointers
}

// percentFor is the percentage of what lives that garbage may come to: at least so
// many bytes, and for the sake of what must be searched at most bound, if there is one. It
// has few values, for a new one stops the process for a moment.
func percentFor(bytes, bound int64, h heap) int {
	live, searched := max(h.live, leastHeap), h.searched
	if bound > 0 {
		searched = min(searched, bound)
	}
	percent := max(bytes, searched, live/leastShare) * 100 / live
	step := int64(50)
	if percent < defaultPercent {
		step = 10
	}
	return int(percent / step * step)
}

func afterCollection() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/heap:bytes"},
	}
	metrics.Read(samples)
	bytes := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return heap{live: bytes(0) + bytes(1) + bytes(2), searched: bytes(3)}
}
