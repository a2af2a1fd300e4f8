package coordinator

import (
	"container/heap"
	"time"
)

// timers are functions to be called at a given time, in order. The zero value is empty.
type timers struct {
	heap timerHeap
	seq  int
}

type timer struct {
	at  time.Time
	seq int // orders equal times by when they were set
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

// set schedules do.
func (t *timers) set(at time.Time, do func()) {
	t.seq++
	heap.Push(&t.heap, timer{at, t.seq, do})
}

func (t *timers) run(now time.Time) {
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		heap.Pop(&t.heap).(timer).do()
	}
}

// nextTimer returns the time of the next timer, false if there is none.
func (t *timers) nextTimer() (time.Time, bool) {
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].at, true
}
