package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/workflows/results"
)

// hook is a web hook that answers one status after another, the last again and
// again.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	bodies   []string
}

func newHook(t *testing.T, statuses ...int) *hook {
	h := &hook{statuses: statuses}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		h.bodies = append(h.bodies, r.Method+" "+r.Header.Get("Content-Type")+" "+string(body))
		status := h.statuses[min(len(h.bodies), len(h.statuses))-1]
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.Close)
	return h
}

// concluded ends a run whose gate has failed, and returns the command's outcome.
func concluded(t *testing.T, address string) (code int, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	g := &global{stdout: &out, data: &out, stderr: &messages}
	outcome := &results.Results{Run: "gate-1", Experiment: "gate", Cells: []results.Cell{
		{Cell: "c01", Label: "iid", Status: results.Done, Gate: results.GateFailed, Breaches: []string{"exposure is 20, above the limit of 15"}},
		{Cell: "c02", Label: "by-user", Status: results.Done, Errors: []string{"never sent"}},
	}}
	err := g.conclude(t.Context(), &notifier{address: address, pause: time.Microsecond}, outcome, nil)
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		t.Fatalf("error %v has no exit code", err)
	}
	return exit.code, messages.String()
}

func TestTheOutcomeIsPostedOnce(t *testing.T) {
	t.Parallel()
	h := newHook(t, http.StatusNoContent)
	if code, stderr := concluded(t, h.URL+"/hooks/secret"); code != exitGate || strings.Contains(stderr, "warning") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	const want = `POST application/json {"run":"gate-1","experiment":"gate","state":"done","exit":4,"gate":"failed",` +
		`"cells":[{"cell":"c01","label":"iid","state":"done","status":"done"},{"cell":"c02","label":"by-user","state":"done","status":"done"}],` +
		`"gates":[{"cell":"c01","breach":"exposure is 20, above the limit of 15"}]}`
	if len(h.bodies) != 1 || h.bodies[0] != want {
		t.Errorf("the hook got %q, want once %s", h.bodies, want)
	}
}

func TestFailedHookIsRetriedAndKeepsExitStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		tries    int
		warning  string
	}{
		"recovers":     {[]int{500, 429, 200}, 3, ""},
		"stays down":   {[]int{503}, 3, "it answered 503 Service Unavailable"},
		"is refused":   {[]int{403}, 1, "it answered 403 Forbidden"},
		"has moved":    {[]int{302}, 1, "it answered 302 Found"},
		"is not there": {nil, 0, "connect: connection refused"},
	} {
		h := newHook(t, c.statuses...)
		if c.statuses == nil {
			h.Close()
		}
		code, stderr := concluded(t, h.URL+"/hooks/secret")
		if code != exitGate || len(h.bodies) != c.tries || !strings.Contains(stderr, c.warning) || strings.Contains(stderr, "warning") != (c.warning != "") {
			t.Errorf("%s: exit status %d after %d tries: %s", name, code, len(h.bodies), stderr)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%s: the message gives the hook's address away: %s", name, stderr)
		}
	}
}

func TestAFailedCellMakesTheStateFailed(t *testing.T) {
	t.Parallel()
	n := newNotification(&results.Results{Cells: []results.Cell{{Status: results.Done}, {Status: results.Failed}}}, exitCellFailed)
	if n.State != results.Failed || n.Exit != exitCellFailed {
		t.Errorf("notification %+v", n)
	}
	if data, err := json.Marshal(newNotification(&results.Results{}, exitDone)); err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s (%v): lists are never null", data, err)
	}
}

func TestInvalidHookAddressIsRejected(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"hooks.example", "ftp://hooks.example/x", "https:///x", "http://%zz"} {
		refuses(t, "--notify (COALMINE_NOTIFY_URL): expected a URL that begins with http://", "run", "nowhere.yaml", "--notify", address)
	}
}

// Addresses of hooks tend to be secrets: the environment keeps them out of the list
// of processes, and the help does not show them.
func TestHookAddressFromEnvironmentIsHidden(t *testing.T) {
	t.Setenv("COALMINE_NOTIFY_URL", "ftp://hooks.example/hush-hush")
	for _, args := range [][]string{{"run", "nowhere.yaml"}, {"watch", "a-run"}} {
		var out, messages bytes.Buffer
		code := execute(t.Context(), args, &out, &messages)
		if code != exitUsage || !strings.Contains(messages.String(), "COALMINE_NOTIFY_URL") || strings.Contains(messages.String(), "hush-hush") {
			t.Errorf("%v: exit status %d: %s", args, code, messages.String())
		}
		out.Reset()
		if code := execute(t.Context(), []string{args[0], "--help"}, &out, &messages); code != exitDone || strings.Contains(out.String(), "hush-hush") {
			t.Errorf("%s --help: exit status %d: %s", args[0], code, out.String())
		}
	}
}

// Every limit that failed stands once where people read: in the notes of the table or, beside JSON, on
// standard error.
func TestFailedGateIsPrintedOnce(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		var out, messages bytes.Buffer
		g := &global{stdout: &out, data: &out, stderr: &messages, json: asJSON}
		const breach = "exposure is 20, above the limit of 15"
		outcome := &results.Results{Run: "gate-1", Experiment: "gate", Cells: []results.Cell{{Cell: "c01", Label: "iid", Status: results.Done, Gate: results.GateFailed, Breaches: []string{breach}}}}
		if exit, ok := errors.AsType[*exitError](g.conclude(t.Context(), &notifier{}, outcome, nil)); !ok || exit.code != exitGate {
			t.Errorf("exit %v", exit)
		}
		printed := &out
		if asJSON {
			printed = &messages
		}
		if n := strings.Count(printed.String(), breach); n != 1 || !asJSON && strings.Contains(messages.String(), breach) {
			t.Errorf("JSON %v: standard output %s\nstandard error %s", asJSON, out.String(), messages.String())
		}
		if !strings.HasPrefix(messages.String(), "gate: ") {
			t.Errorf("standard error %q begins with no gate:", messages.String())
		}
	}
}
