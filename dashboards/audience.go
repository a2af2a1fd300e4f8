package dashboards

import (
	"context"
	"net/http"
	"sync"
	"time"

	"coalmine/internal/goroutines"
)

// audience knows when a browser that has logged in was last here.
type audience struct {
	mu   sync.Mutex
	here int // requests in progress; streams last as long as a view is seen
	last time.Time
}

// note counts a request of a browser until the function that it returns is called.
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
	a.here, a.last = a.here+n, time.Now()
}

// Watched reports whether a browser looks at the page, or did so within a time.
func (s *Server) Watched(within time.Duration) bool {
	a := &s.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.here > 0 || !a.last.IsZero() && time.Since(a.last) < within
}

// AwaitUnwatched waits until no browser has looked at the page for a time, or ctx is done.
func (s *Server) AwaitUnwatched(ctx context.Context, within time.Duration) {
	for s.Watched(within) && goroutines.Sleep(ctx, within/30) == nil {
	}
}
