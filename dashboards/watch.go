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
	"strings"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/workflows/runs/status"
)

// watching holds the timeouts of Client.Watch.
type watching struct {
	silence  time.Duration // a stream without an event for this long is dead
	first    time.Duration // pause before the first try to reconnect; pauses double
	longest  time.Duration // maximum pause
	patience time.Duration // longest outage of the server
}

var liveWatching = watching{
	silence:  3 * heartbeat,
	first:    200 * time.Millisecond,
	longest:  5 * time.Second,
	patience: 2 * time.Minute,
}

// Watch implements control.API. It reconnects after a lost connection. The
// channel closes without the status of a finished run if ctx is done, the
// server refuses, or it is away for two minutes; Status then returns the
// reason.
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
		hangUp(fmt.Errorf("server %s has said nothing for %v", w.client.base, silence))
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
		if answer, ok := errors.AsType[*Error](err); ok && answer.Status/100 == 4 {
			return nil
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
var errOver = errors.New("nothing more will come")

// take passes one event on. The first settles which run is watched: after a
// reconnection, the newest could be another.
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

// readEvents calls take for every event of a stream, and with an empty kind for
// comments. It returns take's error, or why the stream has ended.
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
