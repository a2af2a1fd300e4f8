package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// runEvents streams a run's status whenever it changes, until the run has finished.
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
	return s.stream(w, r, "all runs", func(ctx context.Context, show show) {
		repeat(ctx, s, show, s.list, func(updated <-chan struct{}) {
			select {
			case <-updated:
			case <-time.After(s.pace.idle):
			case <-ctx.Done():
			}
		})
	})
}

// followWorkers streams the workers after every change, such as a heartbeat.
func (s *Server) followWorkers(w http.ResponseWriter, r *http.Request) error {
	return s.stream(w, r, "workers", func(ctx context.Context, show show) {
		repeat(ctx, s, show, s.api.Workers, func(<-chan struct{}) {})
	})
}

// repeat shows the answers of read until ctx is done. After each it pauses, and then waits.
func repeat[A any](ctx context.Context, s *Server, show show, read func(context.Context) (A, error), wait func(updated <-chan struct{})) {
	for {
		updated := s.updated() // before reading, so that no change is missed
		answer, err := read(ctx)
		var data []byte
		if err == nil {
			data, err = json.Marshal(answer)
		}
		if ctx.Err() != nil {
			return
		}
		show(data, false, err)
		if goroutines.Sleep(ctx, s.pace.list) != nil {
			return
		}
		wait(updated)
	}
}

// updated returns a channel that is closed when there is news; already closed if Options.Updated is nil.
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

// source shows the subject of a feed after each change, until it shows the final state or ctx is done.
type source func(ctx context.Context, show show)

// show takes the subject as JSON, or an error and no data.
type show func(data []byte, final bool, err error)

// view is the latest view of a feed.
type view struct {
	number int // counts views from 1; 0 before the first
	data   []byte
	err    error // why there is no newer data; nil if the data is current
	final  bool
}

// feeds holds the feeds in use. All followers of a run share a feed, so that the store is read once.
type feeds struct {
	log     *slog.Logger
	ctx     context.Context
	stop    context.CancelFunc
	looking sync.WaitGroup

	mu     sync.Mutex
	open   map[string]*feed
	opened int    // feeds so far
	start  string // prefix of feed ids that is unique to this process
}

// feed shows one subject until its final state, or until it has no followers.
type feed struct {
	name string
	// id is unique among the feeds of this process and others.
	id        string
	ctx       context.Context // ends with the feed
	stop      context.CancelFunc
	followers int // guarded by feeds.mu

	mu      sync.Mutex
	view    view
	changed chan struct{} // closed when view is replaced
}

func newFeeds(log *slog.Logger) *feeds {
	ctx, stop := context.WithCancel(context.Background())
	return &feeds{log: log, ctx: ctx, stop: stop, open: make(map[string]*feed), start: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// close ends all feeds; feeds that are opened later end at once.
func (fs *feeds) close() {
	fs.mu.Lock()
	fs.stop() // within the lock, so that no feed starts after it
	fs.mu.Unlock()
	fs.looking.Wait()
}

// follow returns the named feed, and a function that releases it.
func (fs *feeds) follow(name string, from source) (f *feed, release func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f = fs.open[name]
	if f == nil {
		fs.opened++
		f = &feed{name: name, id: fmt.Sprintf("%s-%d", fs.start, fs.opened), changed: make(chan struct{})}
		f.ctx, f.stop = context.WithCancel(fs.ctx)
		fs.open[name] = f
		if fs.ctx.Err() == nil {
			fs.looking.Go(func() { fs.run(f, from) })
		}
	}
	f.followers++
	return f, func() { fs.release(f) }
}

func (fs *feeds) release(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.followers--; f.followers == 0 {
		fs.drop(f)
	}
}

// drop ends a feed; later followers get a new one.
func (fs *feeds) drop(f *feed) {
	f.stop()
	if fs.open[f.name] == f {
		delete(fs.open, f.name)
	}
}

// run fills a feed until its source ends or it has no followers.
func (fs *feeds) run(f *feed, from source) {
	err := goroutines.Recover(func() error { from(f.ctx, f.show); return nil })
	if err != nil {
		goroutines.LogPanic(fs.log, err, "following", f.name)
		f.show(nil, false, err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop(f)
}

// show replaces the view if there is anything new.
func (f *feed) show(data []byte, final bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := &f.view
	if old.number > 0 && final == old.final && (err == nil) == (old.err == nil) && (err != nil || bytes.Equal(data, old.data)) {
		return
	}
	f.view = view{old.number + 1, data, err, final}
	close(f.changed)
	f.changed = make(chan struct{})
}

// current returns the view, a channel that is closed when there is another, and
// whether this view is the last.
func (f *feed) current() (v view, changed <-chan struct{}, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.changed, f.view.final || f.ctx.Err() != nil
}

// eventID names a view of the feed in Last-Event-ID.
func (f *feed) eventID(number int) string { return f.id + "." + strconv.Itoa(number) }

// resumed returns the number of the view that an id names, 0 if the id is of another feed.
func (f *feed) resumed(id string) int {
	rest, isOurs := strings.CutPrefix(id, f.id+".")
	number, err := strconv.Atoi(rest)
	if !isOurs || err != nil || number < 0 {
		return 0
	}
	return number
}
