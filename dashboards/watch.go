package dashboards

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/workflows/runs/status"
)

// watchTimes holds the timeouts of Client.Watch.
type watchTimes struct {
	silence  time.Duration // a stream without an event for this long is dead
	first    time.Duration // pause before the first try to reconnect; pauses double
	longest  time.Duration // maximum pause
	patience time.Duration // longest outage of the server
}

var defaultWatchTimes = watchTimes{
	silence:  3 * heartbeat,
	first:    200 * time.Millisecond,
	longest:  5 * time.Second,
	patience: 2 * time.Minute,
}

// Watch implements control.API. It reconnects after a lost connection. The channel closes without the
// status of a finished run if ctx is done, the server refuses, or it is away for two minutes; Status
// then returns the reason.
func (c *Client) Watch(ctx context.Context, run string) (<-chan *status.Run, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{client: c, run: run, statuses: make(chan *status.Run)}
	stream, err := w.connect(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer stop()
		defer close(w.statuses)
		err := goroutines.Recover(func() error { w.follow(ctx, stream); return nil })
		goroutines.LogPanic(slog.Default(), err, "watching", run)
	}()
	return w.statuses, nil
}

// watcher is one Watch.
type watcher struct {
	client   *Client
	run      string
	statuses chan *status.Run
}

// stream is one connection of a watcher.
type stream struct {
	body   io.ReadCloser
	dead   *time.Timer // hangs up when the server has been silent for too long
	hangUp context.CancelCauseFunc
}

func (s *stream) close() {
	s.dead.Stop()
	s.hangUp(nil)
	s.body.Close()
}

func (w *watcher) connect(ctx context.Context) (*stream, error) {
	ctx, hangUp := context.WithCancelCause(ctx)
	silence := w.client.watch.silence
	dead := time.AfterFunc(silence, func() {
		hangUp(fmt.Errorf("server %s has sent nothing for %v", w.client.base, silence))
	})
	response, err := runEvents.open(ctx, w.client, nil, w.run)
	if err != nil {
		dead.Stop()
		err = cmp.Or(context.Cause(ctx), err)
		hangUp(nil)
		return nil, err
	}
	return &stream{response.Body, dead, hangUp}, nil
}

// follow passes statuses on, from one connection after the other.
func (w *watcher) follow(ctx context.Context, s *stream) {
	for s != nil {
		over := w.listen(ctx, s)
		if over || ctx.Err() != nil {
			return
		}
		s = w.reconnect(ctx)
	}
}

// reconnect tries until the server answers; nil if further tries are pointless.
func (w *watcher) reconnect(ctx context.Context) *stream {
	settings := w.client.watch
	lost := time.Now()
	for pause := settings.first; time.Since(lost) < settings.patience; pause = min(2*pause, settings.longest) {
		if goroutines.Sleep(ctx, pause) != nil {
			return nil
		}
		s, err := w.connect(ctx)
		if err == nil {
			return s
		}
		if answer, ok := errors.AsType[*Error](err); ok && answer.Status/100 == 4 && answer.Kind != "" {
			return nil // a refusal of the server; one without a kind is of a proxy, which may be overloaded or restarting
		}
	}
	return nil
}

// listen reads one connection to its end, and reports whether the watch is over.
func (w *watcher) listen(ctx context.Context, s *stream) (over bool) {
	defer s.close()
	err := readEvents(s.body, func(kind, data string) error {
		s.dead.Reset(w.client.watch.silence)
		return w.take(ctx, kind, data)
	})
	return errors.Is(err, errOver)
}

// errOver ends the reading of events.
var errOver = errors.New("end of events")

// take passes one event on. The first event fixes the run of the watch: after a reconnection, another run
// could be the newest.
func (w *watcher) take(ctx context.Context, kind, data string) error {
	switch kind {
	case endEvent:
		return errOver
	case statusEvent:
		var s status.Run
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			return w.client.broken(err)
		}
		w.run = s.Run
		select {
		case w.statuses <- &s:
		case <-ctx.Done():
			return errOver
		}
	}
	return nil
}

// maxEventBytes bounds one line of a stream.
const maxEventBytes = 64 << 20

// readEvents calls take for every event of a stream, and with an empty kind for comments. It returns take's
// error, or the reason for the end of the stream.
func readEvents(body io.Reader, take func(kind, data string) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEventBytes)
	var kind string
	var data []string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			if err := take(kind, strings.Join(data, "\n")); err != nil {
				return err
			}
			kind, data = "", nil
		case field == "event":
			kind = value
		case field == "data":
			data = append(data, value)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// watchdogTimes bounds the silence of a server. An answer may take minutes, so the client probes a
// silent server before it gives up the request.
type watchdogTimes struct {
	silence time.Duration // silence after which another request probes the server
	probe   time.Duration // timeout of a probe
	longest time.Duration // silence after which a request is given up in any case
}

var defaultWatchdogTimes = watchdogTimes{silence: 20 * time.Second, probe: 10 * time.Second, longest: 15 * time.Minute}

// watchdog watches one request from its sending to the end of its answer.
type watchdog struct {
	client *Client
	moved  atomic.Int64 // when a byte last moved, in Unix nanoseconds
	hangUp context.CancelCauseFunc
}

// withWatchdog returns a request that fails when the server falls silent, and its watchdog. The
// caller MUST call end.
func (c *Client) withWatchdog(request *http.Request) (*http.Request, *watchdog) {
	ctx, hangUp := context.WithCancelCause(request.Context())
	w := &watchdog{client: c, hangUp: hangUp}
	w.move()
	request = request.WithContext(ctx)
	if request.Body != nil && request.Body != http.NoBody {
		request.Body = &watchedBody{request.Body, w, func() {}} // the transport closes it when it is sent
	}
	go w.watch(ctx)
	return request, w
}

func (w *watchdog) move() { w.moved.Store(time.Now().UnixNano()) }

func (w *watchdog) end() { w.hangUp(nil) }

// watch gives the request up once the server is silent and does not answer a probe.
func (w *watchdog) watch(ctx context.Context) {
	limits := w.client.watchdogTimes
	asked := time.Duration(0) // the silence at the last probe
	for {
		silent := time.Since(time.Unix(0, w.moved.Load()))
		switch {
		case silent < asked:
			asked = 0 // a byte has moved since
		case silent >= limits.longest:
			w.hangUp(fmt.Errorf("server %s has sent nothing for %v, although it answers other requests; see its log", w.client.base, silent.Round(time.Second)))
			return
		case silent >= asked+limits.silence:
			asked = silent
			if err := w.client.alive(ctx); err != nil {
				w.hangUp(fmt.Errorf("server %s accepted the request, but has sent nothing for %v and does not answer a probe: it hangs, or another program uses its port; see its log, or restart it", w.client.base, silent.Round(time.Second)))
				return
			}
		}
		if goroutines.Sleep(ctx, limits.silence/4) != nil {
			return
		}
	}
}

// alive probes the server. An answer by a proxy in its place does not count.
func (c *Client) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.watchdogTimes.probe)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath(healthPath).String(), nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}

// watchedBody reports the bytes of a body to a watchdog.
type watchedBody struct {
	io.ReadCloser
	watchdog *watchdog
	closed   func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watchdog.move()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// answerBody is the body of an answer. If the watchdog gave the request up, reads return the watchdog's error.
type answerBody struct {
	watchedBody
	ctx context.Context
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.watchedBody.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}
