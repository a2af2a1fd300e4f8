package dashboards

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"coalmine/internal/goroutines"
)

// source shows the subject of a feed after each change, until it shows the final
// state or ctx is done.
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

// feeds holds the feeds in use. All followers of a run share a feed, so that
// the store is read once.
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
