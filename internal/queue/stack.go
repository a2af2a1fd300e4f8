package queue

import "runtime"

// handlerStack is what a handler that writes a record needs of its goroutine's stack.
const handlerStack = 12 << 10

// growStack lets the stack of a new goroutine grow once. By itself it doubles from
// 2 KiB again and again while the handler calls deeper, and each time all frames are
// copied, which costs more than some tasks.
//
//go:noinline
func growStack() {
	var frame [handlerStack]byte
	runtime.KeepAlive(&frame)
}
