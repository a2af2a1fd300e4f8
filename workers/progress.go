package workers

import (
	"sync"
	"sync/atomic"

	"coalmine/internal/queue"
	"coalmine/tasks"
)

// progressBoard holds the progress of running attempts, by ID in the queue.
type progressBoard struct {
	mu      sync.Mutex
	entries map[string]*atomic.Pointer[tasks.Progress]
}

func newProgressBoard() *progressBoard {
	return &progressBoard{entries: map[string]*atomic.Pointer[tasks.Progress]{}}
}

// reporter returns the function with which an attempt reports its progress.
func (b *progressBoard) reporter(id string) func(tasks.Progress) {
	entry := &atomic.Pointer[tasks.Progress]{}
	b.mu.Lock()
	b.entries[id] = entry
	b.mu.Unlock()
	return func(p tasks.Progress) { entry.Store(&p) }
}

// of returns the last progress of an attempt, zero before the first report.
func (b *progressBoard) of(id string) queue.Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.entries[id]; entry != nil {
		if p := entry.Load(); p != nil {
			return queue.Progress(*p)
		}
	}
	return queue.Progress{}
}

// end removes an attempt and returns its last progress.
func (b *progressBoard) end(id string) queue.Progress {
	p := b.of(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, id)
	return p
}
