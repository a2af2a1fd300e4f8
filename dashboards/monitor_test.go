package dashboards

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

func someMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "canary_alive", Help: "It sings."}))
	return r
}

func TestMetricsTakeAReadersTokenAndNoLoginPage(t *testing.T) {
	t.Parallel()
	monitor, err := NewMonitor(Options{OperatorToken: operatorToken, ReaderToken: readerToken, Metrics: someMetrics()})
	if err != nil {
		t.Fatal(err)
	}
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
	monitor, err := NewMonitor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := startOn(t, monitor, "127.0.0.1:0")
	for _, path := range []string{"/", "/api/v1/runs", "/login", "/metrics"} {
		if a := c.ask(t, "GET", path, nil, header()); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

func TestReadinessNamesWhatDoesNotAnswerAndHealthAsksNobody(t *testing.T) {
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
	ready(503, "no answer from the store and Redis; ")
	redis = nil
	ready(503, "no answer from the store; ")
}

// A store that hangs takes Redis no time to answer: each is named for its own silence.
func TestReadinessBlamesOnlyWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := Check{"the store", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		redis := Check{"Redis", func(ctx context.Context) error { return ctx.Err() }}
		s := newTestServer(t, newFake(), Options{})
		s.checks = []Check{hanging, redis}
		if silent := s.silent(t.Context()); !slices.Equal(silent, []string{"the store"}) {
			t.Errorf("silent are %v", silent)
		}
	})
}
