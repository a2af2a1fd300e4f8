// Package memory sets how the process uses memory: how much garbage it accumulates before a
// collection, and which tables lie in large pages.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Allow allows garbage up to the largest of: a number of bytes; the part of the heap that a collection
// searches for pointers, which determines its cost; an eighth of the live heap. A memory limit
// (debug.SetMemoryLimit) still causes earlier collections. Allow does nothing if GOGC is set.
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

// Floats returns n zeros, in large pages if the system grants them: on Linux,
// unless transparent huge pages are switched off. It does not affect results. It serves
// tables with scattered reads, and vectors that a training step reads repeatedly: in
// pages of 4 KiB most reads of many megabytes wait for an address translation.
func Floats(n int) []float32 {
	table := make([]float32, n)
	advise(table)
	return table
}
