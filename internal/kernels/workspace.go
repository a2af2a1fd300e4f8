package kernels

import (
	"sync"
	"unsafe"
)

// workspace is the memory of one product at a time.
type workspace struct{ a, b, turned []float32 }

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// cacheLine in float32.
const cacheLine = 64 / 4

// aligned returns n floats that begin at a cache line, in buffer if it has room.
func aligned(buffer []float32, n int) []float32 {
	if cap(buffer) >= n {
		return buffer[:n]
	}
	buffer = make([]float32, n+cacheLine-1)
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(buffer))) / 4 % cacheLine)
	start := (cacheLine - past) % cacheLine
	return buffer[start : start+n : start+n]
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
