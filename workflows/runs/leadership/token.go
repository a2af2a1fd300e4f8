package leadership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"coalmine/storage"
)

// Token is the fencing token of one leader: its right to delete until a newer
// epoch begins.
type Token struct {
	archive *storage.Archive
	epoch   int
	place   string // the queue, as in Contest
	batches batches
}

// Epoch is the number of the leader's epoch; the first is 1.
func (t *Token) Epoch() int { return t.epoch }

// Check MUST be called before every batch of deletions. The error wraps ErrDeposed
// once another process leads, and names it.
func (t *Token) Check(ctx context.Context) error {
	current, err := t.archive.CurrentEpoch(ctx)
	if err != nil {
		return err
	}
	if current != t.epoch {
		return t.deposed(ctx, current)
	}
	return nil
}

// deposed returns the error of a token outdated by a newer epoch. It names the new leader if
// that can be read.
func (t *Token) deposed(ctx context.Context, epoch int) error {
	err := fmt.Errorf("%w: epoch %d has begun, ours is %d", ErrDeposed, epoch, t.epoch)
	by, readErr := t.archive.EpochOf(ctx, epoch)
	if readErr != nil || by.Holder == "" {
		return err
	}
	err = fmt.Errorf("%w; the other is %s, since %s", err, by.Holder, by.Began.UTC().Format(time.RFC3339))
	if rivals(by.Queue, t.place) {
		err = fmt.Errorf("%w, %w (%s; ours is %s): give both the same --redis, or each a store of its own", err, ErrRival, by.Queue, t.place)
	}
	return err
}

// BeginBatch marks the begin of checking and deleting a batch of a collection, and
// end marks its end.
func (t *Token) BeginBatch() (end func()) { return t.batches.begin() }

// Quiet reports whether no batch of a collection is running, and the number of
// begun batches. If two calls report quiet and the same number, no batch ran
// between them.
func (t *Token) Quiet() (begun int, quiet bool) { return t.batches.quiet() }

// batches counts the batches of collections.
type batches struct {
	mu            sync.Mutex
	active, begun int
}

func (b *batches) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active++
	b.begun++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.active--
	}
}

func (b *batches) quiet() (begun int, quiet bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun, b.active == 0
}
