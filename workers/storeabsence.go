package workers

import (
	"log/slog"
	"sync"
	"time"

	"coalmine/tasks/attempts"
)

// storeAbsence is a time in which attempts are handed back for want of the store. It is told when it
// begins, and when an attempt is done again. The zero value is none.
type storeAbsence struct {
	mu    sync.Mutex
	since time.Time // zero while the store answers
}

// note takes in how an attempt ended.
func (x *storeAbsence) note(out *attempts.Outcome, log *slog.Logger) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case out.Result == attempts.StoreAway && x.since.IsZero():
		x.since = time.Now()
		text := "the store does not answer; tasks are handed back until it does"
		if out.StoreFull {
			text = "the store is full; tasks are handed back until it has room"
		}
		log.Warn(text, "error", out.Error)
	case out.Result == attempts.Done && !x.since.IsZero():
		log.Info("the store answers again", "after", time.Since(x.since).Round(time.Second))
		x.since = time.Time{}
	}
}
