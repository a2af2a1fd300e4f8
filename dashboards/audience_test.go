package dashboards

import (
	"context"
	"net/http"
	"testing"
	"time"

	"coalmine/internal/must"
)

// A page is watched while a browser follows a stream of it. Programs, which bring a token, do not look.
func TestThePageIsWatchedByBrowsersAlone(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-26-characters-xx"
	s := newTestServer(t, newFake(), Options{OperatorToken: token})
	c, _ := startOn(t, s, "127.0.0.1:0")
	c.ask(t, "GET", "/api/v1/runs", nil, http.Header{"Authorization": {"Bearer " + token}})
	if s.Watched(time.Hour) {
		t.Error("a program looks at the page")
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/api/v1/events", nil))(t)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: sessionOf(token)})
	stream, err := http.DefaultClient.Do(r)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	if !s.Watched(0) {
		t.Error("nobody looks at a view whose stream is open")
	}
	stop()
	s.AwaitUnwatched(t.Context(), 30*time.Millisecond) // returns, as the browser has gone
	if s.Watched(0) || !s.Watched(time.Hour) {
		t.Error("the browser that has gone looks on, or never looked")
	}
}
