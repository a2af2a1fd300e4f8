package queue

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAsynqLogNamesTaskAndIsQuietDuringOutage(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	var out bytes.Buffer
	log := asynqLog{slog.New(slog.NewTextHandler(&out, nil)).With("worker", "w1"), &away, new(sync.Map)}
	id := func(digit string) string { return strings.Repeat(digit, 64) + ".7" }
	say := func(args ...any) string {
		out.Reset()
		log.Error(args...)
		return out.String()
	}
	got := say("Could not push task id=" + id("a") + " back to queue: READONLY")
	for _, want := range []string{"level=WARN", "worker=w1", "node=aaaaaaaaaaaa", "attempt=7", "Could not push"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := say("Could not push task id=" + id("a") + " back to queue: READONLY"); got != "" {
		t.Errorf("the same again within a minute: %q", got)
	}
	if got := say("Failed to extend lease for tasks [", id("a"), " ", id("b"), "]"); strings.Contains(got, "node=") {
		t.Errorf("a line about two tasks names one: %q", got)
	}
	if got := say("Failed to write server state data: SADD failed: dial tcp 127.0.0.1:1: connect: connection refused"); got != "" {
		t.Errorf("of a connection: %q", got)
	}
	away.Store(true)
	if got := say("Failed to write server state data: LOADING"); got != "" {
		t.Errorf("while redis is away: %q", got)
	}
}
