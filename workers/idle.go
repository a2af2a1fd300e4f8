package workers

import (
	"sync"
	"time"
)

// idleTimer calls expire after a time without work.
type idleTimer struct {
	after time.Duration // 0 for never

	mu    sync.Mutex
	count int
	timer *time.Timer
}

func newIdleTimer(after time.Duration, expire func()) *idleTimer {
	t := &idleTimer{after: after}
	if after > 0 {
		t.timer = time.AfterFunc(after, expire)
	}
	return t
}

// busy stops the timer until done is called.
func (t *idleTimer) busy() (done func()) {
	t.add(1)
	return func() { t.add(-1) }
}

func (t *idleTimer) add(n int) {
	if t.timer == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count += n
	if t.count == 0 {
		t.timer.Reset(t.after)
	} else {
		t.timer.Stop()
	}
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
