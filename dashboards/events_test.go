package dashboards

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// next is the next status of a watch.
func next(t *testing.T, statuses <-chan *status.Run) *status.Run {
	t.Helper()
	s, ok := <-statuses
	if !ok {
		t.Fatal("the watch has ended")
	}
	return s
}

// alone is an address that no other test takes between two servers on it: one
// of 127.0.0.0/8, of which Linux has all.
func alone(host string) string {
	if runtime.GOOS != "linux" {
		host = "127.0.0.1"
	}
	return host + ":0"
}

// ends waits until a watch is over.
func ends(t *testing.T, statuses <-chan *status.Run) {
	t.Helper()
	for range statuses {
	}
}

func TestAWatchFollowsTheRunToItsEnd(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	statuses := must.Get(c.Watch(t.Context(), "grid"))(t)
	if s := next(t, statuses); s.Phase != runs.Running || s.Cells[0].Step != 1 {
		t.Errorf("first comes %+v", s)
	}
	for step := 2; step <= 9; step++ {
		api.set(func(s *status.Run) {
			s.Cells = []status.Cell{{Cell: "c01", Phase: runs.Running, Step: step, Steps: 9}}
		})
		if s := next(t, statuses); s.Cells[0].Step != step {
			t.Errorf("after step %d comes %+v", step, s)
		}
	}
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	if s := next(t, statuses); s.Phase != runs.Done {
		t.Errorf("last comes %+v", s)
	}
	if s, more := <-statuses; more {
		t.Errorf("after the end comes %+v", s)
	}
}

func TestFinishedRunSendsOneStatusEvent(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.set(func(s *status.Run) { s.Phase = runs.Failed })
	c, _ := start(t, api, Options{})
	a := c.ask(t, "GET", "/api/v1/runs/latest/events", nil, nil)
	if a.Header.Get("Content-Type") != "text/event-stream" || strings.Count(a.body, "event: status\n") != 1 || !strings.HasSuffix(a.body, "event: end\ndata: {}\n\n") {
		t.Errorf("%s: %s", a.Header.Get("Content-Type"), a.body)
	}
}

func TestAWatchSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, stop := startOn(t, newTestServer(t, api, Options{}), alone("127.0.0.2"))
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	stop()
	api.set(func(s *status.Run) { s.Error = "seen after the restart" })
	startOn(t, newTestServer(t, api, Options{}), c.base.Host)
	if s := next(t, statuses); s.Error == "" {
		t.Errorf("after the restart comes %+v", s)
	}
	api.mu.Lock()
	asked := api.asked.run
	api.mu.Unlock()
	if asked != "grid-01234567" {
		t.Errorf("after the restart %q was asked for: by then another run may be the newest", asked)
	}
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	ends(t, statuses)
}

func TestWatchEndsAfterLongServerOutage(t *testing.T) {
	t.Parallel()
	c, stop := start(t, newFake(), Options{})
	c.watch.patience = 0
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	stop()
	ends(t, statuses)
}

func TestWatchEndsWhenServerRejects(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, stop := startOn(t, newTestServer(t, api, Options{}), alone("127.0.0.3"))
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	stop()
	startOn(t, newTestServer(t, api, Options{OperatorToken: operatorToken}), c.base.Host)
	ends(t, statuses)
}

func TestWatchSurvivesProxyRejection(t *testing.T) {
	t.Parallel()
	api := newFake()
	server := newTestServer(t, api, Options{})
	served, requests := server.handler, atomic.Int32{}
	server.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			http.Error(w, "too busy", http.StatusForbidden)
			return
		}
		served.ServeHTTP(w, r)
	})
	c, _ := startOn(t, server, alone("127.0.0.1"))
	c.watch.silence = time.Second // far below the heartbeat, so that the connection is lost
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	next(t, statuses)
	if n := requests.Load(); n < 3 {
		t.Errorf("after %d requests the watch goes on; expected the third to be answered", n)
	}
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	ends(t, statuses)
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	statuses := must.Get(c.Watch(ctx, ""))(t)
	cancel()
	ends(t, statuses)
	if _, err := c.Watch(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that begins too late: %v", err)
	}
}

// A server that accepts connections and says nothing is as good as gone.
func TestWatchReconnectsAfterSilence(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	c.watch.silence = time.Second // far below the heartbeat
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	next(t, statuses) // the first of a second connection: nothing has changed
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	ends(t, statuses)
}

func TestWatchersShareOneFeed(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	var all []<-chan *status.Run
	for range 20 {
		statuses := must.Get(c.Watch(t.Context(), ""))(t)
		next(t, statuses)
		all = append(all, statuses)
	}
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	for _, statuses := range all {
		if s := next(t, statuses); s.Phase != runs.Done {
			t.Errorf("one watcher got %+v", s)
		}
	}
	if api.watchers != 1 {
		t.Errorf("20 watchers cost %d", api.watchers)
	}
}

func TestFeedClosesWithoutWatchers(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, newFake(), Options{})
	c, stop := startOn(t, s, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	statuses := must.Get(c.Watch(ctx, ""))(t)
	next(t, statuses)
	cancel()
	ends(t, statuses)
	stop() // waits for all streams
	if len(s.feeds.open) != 0 {
		t.Errorf("open feeds: %v", s.feeds.open)
	}
}

func TestFeedReportsErrorsAndContinues(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, newFake(), Options{})
	shown := make(chan struct{})
	f, release := s.feeds.follow("test", func(ctx context.Context, show show) {
		show([]byte(`1`), false, nil)
		show([]byte(`1`), false, nil)
		show(nil, false, fmt.Errorf("store: %w", storage.ErrFull))
		close(shown)
		<-ctx.Done()
	})
	defer release()
	<-shown
	v, _, last := f.current()
	if got := string(event("a.2", v)); v.number != 2 || last || got != "id: a.2\nevent: trouble\ndata: {\"error\":\"store: store is full\",\"kind\":\"full\"}\n\n" {
		t.Errorf("view %d, last: %v, sent as %q", v.number, last, got)
	}
}

func TestTheListOfRunsIsLive(t *testing.T) {
	t.Parallel()
	api := newFake()
	changesOnce(t, api, listEvents, `"state":"paused"`, func() {
		api.set(func(s *status.Run) { s.Phase = runs.Paused })
	})
}

func TestWorkersAreLive(t *testing.T) {
	t.Parallel()
	api := newFake()
	changesOnce(t, api, followWorkers, `"id":"w1"`, func() {
		api.mu.Lock()
		defer api.mu.Unlock()
		api.fleet = status.Fleet{Workers: []status.FleetWorker{{Worker: status.Worker{ID: "w1"}}}}
	})
}

// changesOnce reads a stream whose first event is without some words, and whose second, after a
// change, has them.
func changesOnce(t *testing.T, api *fakeAPI, stream operation[none], words string, change func()) {
	t.Helper()
	c, _ := start(t, api, Options{})
	response := must.Get(stream.open(t.Context(), c, nil))(t)
	defer response.Body.Close()
	seen := 0
	err := readEvents(response.Body, func(kind, data string) error {
		if kind != statusEvent {
			return nil
		}
		seen++
		if strings.Contains(data, words) {
			return errOver
		}
		change()
		return nil
	})
	if !errors.Is(err, errOver) || seen != 2 {
		t.Errorf("%d events, %v", seen, err)
	}
}

func TestShutdownEndsOpenStreams(t *testing.T) {
	t.Parallel()
	c, stop := startOn(t, newTestServer(t, newFake(), Options{}), alone("127.0.0.4"))
	response := must.Get(runEvents.open(t.Context(), c, nil, ""))(t)
	defer response.Body.Close()
	stop() // returns although a stream is open
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the stream was cut, not ended: %v", err)
	}
	if l, err := net.Listen("tcp", c.base.Host); err != nil {
		t.Errorf("the address is still taken: %v", err)
	} else {
		l.Close()
	}
}

func TestWatchOfUnknownRunFails(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.err = fmt.Errorf("run x: %w", control.ErrNoRun)
	c, _ := start(t, api, Options{})
	if _, err := c.Watch(t.Context(), "x"); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("got %v", err)
	}
}

// firstEvents are the kinds, ids and data of a stream's events until enough says so.
func firstEvents(t *testing.T, c *Client, id string, enough func(kind string) bool) (kinds []string, lastID string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := must.Get(listEvents.request(ctx, c, nil, nil))(t)
	if id != "" {
		request.Header.Set(lastEventID, id)
	}
	response := must.Get(c.send(request))(t)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			lastID = value
		case "event":
			kinds = append(kinds, value)
			if enough(value) {
				return kinds, lastID
			}
		}
	}
	t.Fatalf("the stream ended with %q: %v", kinds, lines.Err())
	return nil, ""
}

func TestStreamResumesAfterLastEvent(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	keep, err := listEvents.open(t.Context(), c, nil) // keeps the feed open
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Body.Close()
	isStatus := func(kind string) bool { return kind == statusEvent }
	kinds, id := firstEvents(t, c, "", isStatus)
	if len(kinds) != 1 || id == "" {
		t.Fatalf("at first come %q up to %q", kinds, id)
	}
	api.set(func(s *status.Run) { s.Phase = runs.Paused })
	kinds, next := firstEvents(t, c, id, isStatus)
	if len(kinds) != 1 || next == id {
		t.Errorf("after a change come %q up to %q", kinds, next)
	}
	for _, other := range []string{"x", id + "x", "." + id, strings.TrimRight(id, "0123456789") + "-1"} {
		if kinds, _ := firstEvents(t, c, other, isStatus); len(kinds) != 2 || kinds[0] != resetEvent {
			t.Errorf("after the id %q, which is none of this stream, come %q", other, kinds)
		}
	}
}

func TestLastEventIDResumesOrResets(t *testing.T) {
	t.Parallel()
	f := &feed{id: "a", changed: make(chan struct{})}
	for i := range 3 {
		f.show([]byte{byte('1' + i)}, false, nil)
	}
	for id, want := range map[string]int{"a.3": 3, "a.1": 1, "": 0, "b.3": 0, "a.-1": 0, "a.": 0, "a.3.3": 0} {
		seen, text := greet(f, id)
		if told := strings.Contains(string(text), resetEvent); seen != want || told != (id != "" && want == 0) {
			t.Errorf("after %q: %d seen, told of a reset: %v", id, seen, told)
		}
	}
}
