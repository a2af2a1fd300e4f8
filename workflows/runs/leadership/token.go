package leadership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"coalmine/storage"
)

// Token is the fencing token of one leader: its right to delete, for as long as no
// newer epoch has begun.
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

// deposed returns the error of a token that a newer epoch outdated. It names the new leader if
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

// BeginBatch says that a batch of a collection is about to be checked and deleted;
// the function that it returns, that it has been.
func (t *Token) BeginBatch() (end func()) { return t.batches.begin() }

// Quiet reports whether no batch of a collection is under way, and how many have
// begun. Reads between two calls that both report quiet and the same number
// happened while no batch was under way.
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
