// This file sets how much garbage a process accumulates before a
// collection.
//
// Go collects whenever the heap has grown by the live heap of the last collection.
// That is too early for a process with a heap of a few MiB, such as a coordinator: it
// would collect many times a second to save a few MiB. And it is too late for a worker
// that caches models: hundreds of MiB are live, the same amount would be garbage, and
// a collection costs almost nothing, because arrays of numbers are not searched for
// pointers.
//
//	memory.Allow(32 << 20) // in main

package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Allow allows garbage up to the largest of: a number of bytes; the part of the heap
// that a collection searches for pointers, which determines its cost; an eighth of the
// live heap. A memory limit (debug.SetMemoryLimit) still causes earlier collections.
// Allow does nothing if GOGC is set.
func Allow(bytes int64) {
	if os.Getenv("GOGC") == "" {
		pace{bytes: bytes, percent: defaultPercent}.next()
	}
}

// Bound limits garbage to about bytes, even if the heap to search for pointers is
// larger: a process with a large heap uses less memory and more time. The bytes of
// Allow, and an eighth of the live heap, remain allowed.
func Bound(bytes int64) { bound.Store(bytes) }

// bound is 0 if there is none.
var bound atomic.Int64

const (
	// defaultPercent is Go's default.
	defaultPercent = 100
	// minHeap is the size that Go assumes for a smaller heap.
	minHeap = 4 << 20
	// minShare is the fraction of the live heap that is always allowed as garbage:
	// with less, collections would run back to back.
	minShare = 8
)

// pace controls when the next collection begins.
type pace struct {
	bytes   int64 // of garbage
	percent int   // of the live heap, in effect
}

// next schedules keep after the next collection, which frees the object.
func (p pace) next() {
	type object struct{ _ *byte } // without a pointer, the allocator could combine it with others
	runtime.AddCleanup(new(object), func(p pace) { p.keep().next() }, p)
}

// keep sets the percentage right after a collection.
func (p pace) keep() pace {
	percent := percentFor(p.bytes, bound.Load(), afterCollection())
	if percent == p.percent {
		return p
	}
	if debug.SetGCPercent(percent) < 0 {
		debug.SetGCPercent(-1) // no collections until the new setting
		return p
	}
	return pace{p.bytes, percent}
}

// heap describes the heap after a collection, in bytes.
type heap struct {
	live     int64 // base of Go's percentage: objects, stacks and global variables
	searched int64 // part of the objects that may hold pointers
}

// percentFor returns the limit of garbage as a percentage of the live heap: at least
// bytes; the part for searched pointers is at most bound, if set. It has few values,
// because a change stops the process briefly.
func percentFor(bytes, bound int64, h heap) int {
	live, searched := max(h.live, minHeap), h.searched
	if bound > 0 {
		searched = min(searched, bound)
	}
	percent := max(bytes, searched, live/minShare) * 100 / live
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
