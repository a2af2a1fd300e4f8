package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/workflows/runs/status"
)

// faultyAPI panics when it is asked for a run.
type faultyAPI struct{ *fakeAPI }

func (faultyAPI) Status(context.Context, string) (*status.Run, error) { panic("a fault in status") }

func TestARequestThatPanicsIsAnsweredAndItsStackLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, _ := start(t, faultyAPI{newFake()}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := c.ask(t, http.MethodGet, "/api/v1/runs/x", nil, nil)
	var body errorBody
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.StatusCode != http.StatusInternalServerError || body.Kind != "internal" {
		t.Errorf("got %s %q, want an internal error: %v", a.Status, a.body, err)
	}
	if !strings.Contains(log.String(), "faultyAPI.Status") {
		t.Errorf("the log has no stack: %s", &log)
	}
	if a := c.ask(t, http.MethodGet, "/api/v1/version", nil, nil); a.StatusCode != http.StatusOK {
		t.Errorf("the server is gone: %s", a.Status)
	}
}

func TestAFeedWhoseSourcePanicsShowsAnError(t *testing.T) {
	t.Parallel()
	fs := newFeeds(slog.New(slog.DiscardHandler))
	defer fs.close()
	f, release := fs.follow("x", func(context.Context, show) { panic("a fault in a source") })
	defer release()
	for deadline := time.After(time.Minute); ; {
		v, changed, _ := f.current()
		if v.err != nil {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatal("the feed shows nothing")
		}
	}
}

func TestARecordWaitsUntilThereIsMemoryForIt(t *testing.T) {
	t.Parallel()
	spec, _ := prepared(t)
	record := must.Get(json.Marshal(spec))(t)
	s := newTestServer(t, newFake(), Options{})
	post := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/v1/runs", bytes.NewReader(record))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	must.Do(t, s.records.Acquire(t.Context(), maxRecordBytes))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if status := post(gone); status != http.StatusServiceUnavailable {
		t.Errorf("without memory the answer is %d", status)
	}
	s.records.Release(maxRecordBytes)
	if status := post(t.Context()); status >= http.StatusBadRequest {
		t.Errorf("with memory the answer is %d", status)
	}
}
