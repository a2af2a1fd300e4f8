package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

const pause = `{"kind":"paused"}`

func TestUnknownHostNamesAreRejected(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{OperatorToken: operatorToken, Hosts: []string{"Runs.Example.org", "[fd00::7]"}})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:99": 200, "127.0.0.1:80": 200, "127.9.9.9": 200, "[::1]:80": 200, "[::1]": 200,
		"runs.example.org": 200, "runs.example.org.:443": 200, "[fd00::7]:1": 200,
		"evil.example": 421, "localhost.evil.example": 421, "evil.localhost": 421, "127.0.0.1.evil.example": 421,
		"10.0.0.1": 421, "0.0.0.0": 421, "[fd00::8]": 421, "runs.example.org.evil": 421, "localhost@evil": 421,
	} {
		h := header("Host", host, "Authorization", "Bearer "+operatorToken)
		for _, path := range []string{"/api/v1/runs", "/", "/assets/style.css", "/login"} {
			if a := c.ask(t, "GET", path, nil, h); a.StatusCode != want {
				t.Errorf("Host %s, %s: %s, want %d", host, path, a.Status, want)
			}
		}
		for _, probe := range []string{healthPath, readyPath} {
			if a := c.ask(t, "GET", probe, nil, h); a.StatusCode != 200 {
				t.Errorf("Host %s, probe %s: %s", host, probe, a.Status)
			}
		}
	}
}

// A server that listens everywhere answers under the address that a request
// came in on, and not under that of another machine.
func TestServerAnswersToConnectionAddress(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, newFake(), Options{})
	for host, want := range map[string]bool{"10.1.2.3:80": true, "[::ffff:10.1.2.3]": true, "10.1.2.4:80": false, "localhost": true} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		local := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 80}
		r = r.WithContext(contextWith(r, local))
		if got := s.answersTo(r); got != want {
			t.Errorf("Host %s on %s: %v", host, local, got)
		}
	}
}

func TestCrossOriginWritesAreRejected(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	for name, h := range map[string]http.Header{
		"another site":                    header("Sec-Fetch-Site", "cross-site"),
		"another port of this machine":    header("Sec-Fetch-Site", "same-site"),
		"an old browser":                  header("Origin", "http://evil.example"),
		"an old browser, another port":    header("Origin", "http://127.0.0.1:1"),
		"a page without an origin":        header("Origin", "null"),
		"a name that contains this one's": header("Origin", c.base.String()+".evil.example"),
	} {
		h.Set("Content-Type", "application/json")
		for _, request := range [][2]string{{"POST", "/api/v1/runs/x/steer"}, {"POST", "/api/v1/runs"}, {"PUT", "/api/v1/sources/" + key.String()}, {"POST", "/login"}, {"POST", "/logout"}} {
			a := c.ask(t, request[0], request[1], strings.NewReader(pause), h)
			if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, `"kind":"origin"`) {
				t.Errorf("%s: %v gives %s %s", name, request, a.Status, a.body)
			}
		}
	}
	if api.asked.entry.Kind != "" || api.asked.spec.Name != "" {
		t.Error("something got through")
	}
	own := header("Content-Type", "application/json", "Sec-Fetch-Site", "same-origin", "Origin", c.base.String())
	if a := c.ask(t, "POST", "/api/v1/runs/x/steer", strings.NewReader(pause), own); a.StatusCode != 200 || api.asked.entry.Kind != runs.PauseEntry {
		t.Errorf("the server's own page: %s %s", a.Status, a.body)
	}
}

// A form of a foreign page can send no application/json without asking first.
func TestBodyWithoutJSONContentTypeIsRejected(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", ";"} {
		a := c.ask(t, "POST", "/api/v1/runs/x/steer", strings.NewReader(pause), header("Content-Type", kind))
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "application/json") {
			t.Errorf("Content-Type %q: %s %s", kind, a.Status, a.body)
		}
	}
}

// A client that sends an experiment file without its media type learns that type.
func TestSubmissionOfUnknownTypeNamesBothTypes(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	a := c.ask(t, "POST", "/api/v1/runs", strings.NewReader("name: x"), header("Content-Type", "text/yaml"))
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "application/json (a run record) or application/yaml (an experiment file)") {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

func TestAnswersHaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for _, path := range []string{"/", "/runs/x", "/assets/style.css", "/compare", "/api/v1/runs", "/api/v1/nothing", "/nothing"} {
		a := c.ask(t, "GET", path, nil, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other origins may read", path)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the policy is lax: %s", policy)
	}
}

// A report is shown with its style and its pictures, which it has within it, and still may run
// nothing, nor reach the server as a page of it could.
func TestReportsAreServedSandboxed(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.results = results.Results{Run: "grid"}
	c, _ := start(t, api, Options{})
	a := c.ask(t, "GET", "/api/v1/runs/grid/results?format=html", nil, nil)
	got := a.Header.Get("Content-Security-Policy")
	if !strings.HasSuffix(got, "; sandbox allow-downloads") || a.Header.Get("Cross-Origin-Opener-Policy") != "" || !strings.HasPrefix(a.Header.Get("Content-Disposition"), "inline;") {
		t.Errorf("%v", a.Header)
	}
	if got != documentPolicy || !strings.HasPrefix(got, "default-src 'none';") || strings.Contains(got, "script") {
		t.Errorf("the policy is %q", got)
	}
}

func TestUnknownRoutesReportJSONErrors(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	if a := c.ask(t, "GET", "/api/v1/rnus", nil, nil); a.StatusCode != 404 || !strings.Contains(a.body, `"kind":"route"`) {
		t.Errorf("an unknown path: %s %s", a.Status, a.body)
	}
	if a := c.ask(t, "DELETE", "/api/v1/runs", nil, nil); a.StatusCode != 405 || !strings.Contains(a.body, "GET, HEAD, POST") || a.Header.Get("Allow") == "" {
		t.Errorf("a wrong method: %s %s", a.Status, a.body)
	}
	if a := c.ask(t, "GET", "/rnus", nil, nil); a.StatusCode != 404 {
		t.Errorf("an unknown page: %s", a.Status)
	}
}

// faultyAPI panics when it is asked for a run.
type faultyAPI struct{ *fakeAPI }

func (faultyAPI) Status(context.Context, string) (*status.Run, error) { panic("a fault in status") }

func TestPanicOfRequestIsReportedAndLogged(t *testing.T) {
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

func TestPanicOfFeedIsReported(t *testing.T) {
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

func TestSubmissionWaitsForRecordMemory(t *testing.T) {
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
