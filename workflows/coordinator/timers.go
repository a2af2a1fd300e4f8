package coordinator

import (
	"container/heap"
	"time"
)

// timers are functions to be called at a given time, in order.
type timers []timer

type timer struct {
	at  time.Time
	seq int // keeps equal times in the order in which they were set
	do  func()
}

func (h timers) Len() int { return len(h) }
func (h timers) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h timers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timers) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return last
}

// after calls do once d has passed.
func (t *term) after(d time.Duration, do func()) {
	t.timerSeq++
	heap.Push(&t.timers, timer{t.now().Add(d), t.timerSeq, do})
}

// every calls do now and then again each time that d has passed.
func (t *term) every(d time.Duration, do func()) {
	do()
	t.after(d, func() { t.every(d, do) })
}

// tick calls what is due.
func (t *term) tick() {
	now := t.now()
	for len(t.timers) > 0 && !t.timers[0].at.After(now) {
		heap.Pop(&t.timers).(timer).do()
	}
}

// nextTimer is when tick has something to do again; false if never.
func (t *term) nextTimer() (time.Time, bool) {
	if len(t.timers) == 0 {
		return time.Time{}, false
	}
	return t.timers[0].at, true
}
