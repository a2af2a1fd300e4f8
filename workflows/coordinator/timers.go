package coordinator

import (
	"container/heap"
	"time"
)

// timers are functions to be called at a given time, in order. The zero value has none.
type timers struct {
	heap timerHeap
	seq  int
}

type timer struct {
	at  time.Time
	seq int // keeps equal times in the order in which they were set
	do  func()
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return last
}

// set has do called at a time.
func (t *timers) set(at time.Time, do func()) {
	t.seq++
	heap.Push(&t.heap, timer{at, t.seq, do})
}

// run calls the due timers.
func (t *timers) run(now time.Time) {
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		heap.Pop(&t.heap).(timer).do()
	}
}

// nextTimer is when run has something to do again; false if never.
func (t *timers) nextTimer() (time.Time, bool) {
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].at, true
}
