package workers

import (
	"log/slog"
	"sync"
	"time"

	"coalmine/tasks/attempts"
)

// storeAbsence is a period in which attempts are handed back because the store is unavailable. Its
// start is logged, and its end when an attempt is done again. The zero value is no absence.
type storeAbsence struct {
	mu    sync.Mutex
	since time.Time // zero while the store answers
}

// note records the end of an attempt.
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
