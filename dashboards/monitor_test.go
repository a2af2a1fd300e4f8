package dashboards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/must"
	"coalmine/storage"
)

func someMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "canary_alive", Help: "It sings."}))
	return r
}

func TestMetricsRequireReaderToken(t *testing.T) {
	t.Parallel()
	monitor := must.Get(NewMonitor(Options{OperatorToken: operatorToken, ReaderToken: readerToken, Metrics: someMetrics()}))(t)
	ofMonitor, _ := startOn(t, monitor, "127.0.0.1:0")
	ofServer, _ := start(t, newFake(), Options{OperatorToken: operatorToken, ReaderToken: readerToken, Metrics: someMetrics()})
	for name, c := range map[string]*Client{"monitor": ofMonitor, "server": ofServer} {
		for token, want := range map[string]int{"": 401, readerToken + "x": 401, readerToken: 200, operatorToken: 200} {
			a := c.ask(t, "GET", "/metrics", nil, header("Authorization", "Bearer "+token))
			if a.StatusCode != want || strings.Contains(a.body, "canary_alive 0") != (want == 200) {
				t.Errorf("%s, token %q: %s: %s", name, token, a.Status, a.body)
			}
		}
		if a := c.ask(t, "GET", "/metrics", nil, header("Host", "evil.example", "Authorization", "Bearer "+readerToken)); a.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: %s", name, a.Status)
		}
	}
}

func TestAMonitorHasNoAPI(t *testing.T) {
	t.Parallel()
	monitor := must.Get(NewMonitor(Options{}))(t)
	c, _ := startOn(t, monitor, "127.0.0.1:0")
	for _, path := range []string{"/", "/api/v1/runs", "/login", "/metrics"} {
		if a := c.ask(t, "GET", path, nil, header()); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

func TestReadinessReportsFailuresAndHealthStaysOK(t *testing.T) {
	t.Parallel()
	api := newFake()
	leads, redis := false, error(nil)
	c, _ := start(t, api, Options{
		Leads:  func() bool { return leads },
		Checks: []Check{{"Redis", func(context.Context) error { return redis }}},
	})
	ready := func(want int, says string) {
		t.Helper()
		a := c.ask(t, "GET", "/readyz", nil, header())
		if a.StatusCode != want || !strings.Contains(a.body, says) {
			t.Errorf("%s: %s, want %d and %q", a.Status, a.body, want, says)
		}
		if a := c.ask(t, "GET", "/healthz", nil, header()); a.StatusCode != http.StatusOK {
			t.Errorf("not alive: %s", a.Status)
		}
	}
	ready(200, `"leading":false`)
	leads = true
	ready(200, `"leading":true`)
	redis = errors.New("connection to 10.0.0.7 refused")
	ready(503, "no answer from Redis; ")
	api.err = redis
	ready(503, "no answer from the store, no answer from Redis; ")
	redis = nil
	ready(503, "no answer from the store; ")
	api.err = fmt.Errorf("head x at 10.0.0.7: %w", &storage.KnownError{Mark: storage.ErrAway, Cause: "the credentials have expired", Remedy: "renew them at 10.0.0.8", Err: errors.New("said by 10.0.0.7")})
	ready(503, "the store: the credentials have expired; ")
	if a := c.ask(t, "GET", "/readyz", nil, header()); strings.Contains(a.body, "10.0.0") {
		t.Errorf("to people without a token it shows addresses: %s", a.body)
	}
	if err := c.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "the credentials have expired") {
		t.Errorf("the client says: %v", err)
	}
}

// Probes come every few seconds, from several sides.
func TestFailedChecksAreLoggedOncePerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := newTestServer(t, newFake(), Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		s.checks = []Check{{"Redis", func(context.Context) error { return errors.New("MISCONF") }}}
		for range 40 {
			s.missing(t.Context())
			time.Sleep(3 * time.Second)
		}
		if n := strings.Count(said.String(), "MISCONF"); n != 2 {
			t.Errorf("in two minutes it said %d times that Redis is missing:\n%s", n, &said)
		}
	})
}

// A store that hangs takes Redis no time to answer: each is named for its own silence.
func TestReadinessReportsOnlyHangingChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := Check{"the store", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		redis := Check{"Redis", func(ctx context.Context) error { return ctx.Err() }}
		s := newTestServer(t, newFake(), Options{})
		s.checks = []Check{hanging, redis}
		if missing := s.missing(t.Context()); !slices.Equal(missing, []string{"no answer from the store"}) {
			t.Errorf("missing are %q", missing)
		}
	})
}
