package dashboards

import (
	"context"
	"net/http"
	"sync"
	"time"

	"coalmine/internal/goroutines"
)

// audience tracks the last request of a logged-in browser.
type audience struct {
	mu     sync.Mutex
	active int // requests in progress; streams last as long as a view is seen
	last   time.Time
}

// note counts a request of a browser until the returned function is called.
func (a *audience) note(r *http.Request) (leave func()) {
	if _, err := r.Cookie(sessionCookie); err != nil {
		return func() {}
	}
	a.add(1)
	return func() { a.add(-1) }
}

func (a *audience) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active, a.last = a.active+n, time.Now()
}

// Watched reports whether a browser shows the page, or did so within the given time.
func (s *Server) Watched(within time.Duration) bool {
	a := &s.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active > 0 || !a.last.IsZero() && time.Since(a.last) < within
}

// AwaitUnwatched waits until no browser has shown the page for the given time, or ctx is done.
func (s *Server) AwaitUnwatched(ctx context.Context, within time.Duration) {
	for s.Watched(within) && goroutines.Sleep(ctx, within/30) == nil {
	}
}
