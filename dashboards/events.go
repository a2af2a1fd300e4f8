package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"coalmine/internal/goroutines"
)

// heartbeat is the interval of heartbeats on an otherwise idle stream, so that
// both sides notice a dead connection.
const heartbeat = 15 * time.Second

// Events of a stream (Server-Sent Events, WHATWG HTML section 9.2).
const (
	statusEvent  = "status"  // the status of the run, or the list of runs
	troubleEvent = "trouble" // an errorBody: the reason why there is no newer status; the stream continues
	endEvent     = "end"     // nothing more will come: do not reconnect
	resetEvent   = "reset"   // the Last-Event-ID is not one of this stream: the client's state may be stale
)

// lastEventID is the header that a browser sends when it reconnects.
const lastEventID = "Last-Event-ID"

// pace is the rate of updates on streams: changes come faster than people read.
type pace struct {
	run  time.Duration // between two statuses of a run
	list time.Duration // between two reads of all runs, which cost more
	// idle is the longest time between two reads of a list if Options.Updated
	// reports changes: it does not report those of other processes.
	idle time.Duration
}

var livePace = pace{run: 500 * time.Millisecond, list: 2 * time.Second, idle: 10 * time.Second}

// runEvents streams a run's status whenever it changes, until the run has
// finished.
func (s *Server) runEvents(w http.ResponseWriter, r *http.Request) error {
	now, err := s.api.Status(r.Context(), runName(r))
	if err != nil {
		return err
	}
	return s.stream(w, r, "run "+now.Run, func(ctx context.Context, show show) { s.followRun(ctx, now.Run, show) })
}

func (s *Server) followRun(ctx context.Context, run string, show show) {
	statuses, err := s.api.Watch(ctx, run)
	if err != nil {
		show(nil, false, err)
		return
	}
	for status := range statuses {
		data, err := json.Marshal(status)
		show(data, status.Phase.Finished(), err)
		if status.Phase.Finished() || goroutines.Sleep(ctx, s.pace.run) != nil {
			return
		}
	}
}

// listEvents streams the list of runs whenever it changes.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	return s.stream(w, r, "all runs", s.followList)
}

func (s *Server) followList(ctx context.Context, show show) {
	for {
		updated := s.updated() // before reading, so that no change is missed
		all, err := s.list(ctx)
		var data []byte
		if err == nil {
			data, err = json.Marshal(all)
		}
		if ctx.Err() != nil {
			return
		}
		show(data, false, err)
		if goroutines.Sleep(ctx, s.pace.list) != nil {
			return
		}
		select {
		case <-updated:
		case <-time.After(s.pace.idle):
		case <-ctx.Done():
			return
		}
	}
}

// followWorkers streams the workers after every change, such as a heartbeat.
func (s *Server) followWorkers(w http.ResponseWriter, r *http.Request) error {
	return s.stream(w, r, "workers", s.readWorkers)
}

func (s *Server) readWorkers(ctx context.Context, show show) {
	for {
		fleet, err := s.api.Workers(ctx)
		var data []byte
		if err == nil {
			data, err = json.Marshal(fleet)
		}
		if ctx.Err() != nil {
			return
		}
		show(data, false, err)
		if goroutines.Sleep(ctx, s.pace.list) != nil {
			return
		}
	}
}

// updated returns a channel that is closed when there is news; already closed if
// Options.Updated is nil.
func (s *Server) updated() <-chan struct{} {
	if s.options.Updated != nil {
		return s.options.Updated()
	}
	now := make(chan struct{})
	close(now)
	return now
}

// stream sends the views of the named feed until one is final, the reader
// disconnects or the server ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, name string, from source) error {
	f, release := s.feeds.follow(name, from)
	defer release()
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	if r.Method == http.MethodHead {
		return nil
	}
	out := newFlow(w, nil)
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	seen, text := greet(f, r.Header.Get(lastEventID))
	for {
		v, changed, last := f.current()
		if v.number > seen {
			seen, text = v.number, append(text, event(f.eventID(v.number), v)...)
		}
		if v.final {
			text = append(text, "event: "+endEvent+"\ndata: {}\n\n"...)
		}
		if !out.push(text) || last {
			return nil
		}
		text = text[:0]
		select {
		case <-changed:
		case <-f.ctx.Done():
		case <-alive.C:
			text = append(text, ": alive\n\n"...)
		case <-r.Context().Done():
			return nil
		}
	}
}

// greet begins a stream for a client that has seen the events up to an id, "" for a new
// client. Each event is complete, so a client that reconnects needs only the newest event.
func greet(f *feed, id string) (seen int, text []byte) {
	text = []byte(": hello\n\n")
	if id == "" {
		return 0, text
	}
	if seen = f.resumed(id); seen == 0 {
		text = append(text, "event: "+resetEvent+"\ndata: {}\n\n"...)
	}
	return seen, text
}

// event encodes a view for sending. JSON holds no line breaks.
func event(id string, v view) []byte {
	kind, data := statusEvent, v.data
	if v.err != nil {
		kind = troubleEvent
		data, _ = json.Marshal(errorBody{v.err.Error(), kindOf(v.err).kind})
	}
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", id, kind, data)
}

// push sends text at once, and reports whether the client is still connected.
func (f *flow) push(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	_, err := f.Write(text)
	return err == nil && f.control.Flush() == nil
}
