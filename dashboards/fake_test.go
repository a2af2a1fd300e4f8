package dashboards

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

// fakeAPI answers as its fields say, and keeps its requests.
type fakeAPI struct {
	// err is the answer to everything, if there is one.
	err error

	mu       sync.Mutex
	status   status.Run
	changed  chan struct{}
	watchers int
	sources  map[storage.Digest][]byte
	spec     experiment.Spec
	results  results.Results
	pictures []results.Picture
	model    []byte
	data     []byte
	nodes    []control.Node
	lineage  control.Lineage
	fleet    status.Fleet
	spending control.Spending
	rounds   results.Rounds
	curve    results.Curve
	history  control.History
	lives    results.CanaryLives
	// surroundings are those of every canary.
	surroundings control.Surroundings
	logs         []control.AttemptLog
	// collected is the answer to collections and removals.
	collected retention.Result
	// batches is how many deletions a collection tells of, before its error if any.
	batches int

	asked struct {
		run, cell, node string
		nodes           control.NodeQuery
		prepared        string
		shown           results.Shown
		round, canary   int
		points          int
		table           dataexport.Table
		format          dataexport.Format
		spec            runs.Spec
		file            control.File
		fresh           bool
		entry           runs.Entry
		collect         control.CollectOptions
	}
}

func newFake() *fakeAPI {
	f := &fakeAPI{changed: make(chan struct{}), sources: map[storage.Digest][]byte{}}
	f.status = status.Run{
		Run: "grid-01234567", Name: "grid", Phase: runs.Running,
		Cells:   []status.Cell{{Cell: "c01", Label: "iid", Phase: runs.Running, Step: 1, Steps: 9}},
		Workers: []status.Worker{},
	}
	return f
}

// set changes the status and sends it to all watchers.
func (f *fakeAPI) set(change func(s *status.Run)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAPI) current() (*status.Run, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	return &s, f.changed
}

func (f *fakeAPI) HasSource(_ context.Context, d storage.Digest) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.sources[d]
	return there, f.err
}

func (f *fakeAPI) PutSource(_ context.Context, body io.ReadSeeker) (storage.Digest, error) {
	if f.err != nil {
		return storage.Digest{}, f.err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return storage.Digest{}, err
	}
	data, err := io.ReadAll(body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources[storage.DigestOf(data)] = data
	return storage.DigestOf(data), err
}

func (f *fakeAPI) Submit(_ context.Context, spec runs.Spec, fresh bool) (control.Submitted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.spec, f.asked.fresh = spec, fresh
	return control.Submitted{Run: "grid-01234567", Continued: !fresh}, f.err
}

func (f *fakeAPI) SubmitFile(_ context.Context, file control.File, fresh bool) (control.Submitted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.file, f.asked.fresh = file, fresh
	return control.Submitted{Run: "grid-01234567", Continued: !fresh}, f.err
}

func (f *fakeAPI) List(context.Context) ([]*status.Run, error) {
	s, _ := f.current()
	return []*status.Run{s}, f.err
}

func (f *fakeAPI) Status(_ context.Context, run string) (*status.Run, error) {
	s, _ := f.current()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	return s, f.err
}

func (f *fakeAPI) Watch(ctx context.Context, run string) (<-chan *status.Run, error) {
	f.mu.Lock()
	f.watchers++
	f.mu.Unlock()
	out := make(chan *status.Run)
	go func() {
		defer close(out)
		for {
			s, changed := f.current()
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
			if s.Phase.Finished() {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, f.err
}

func (f *fakeAPI) Steer(_ context.Context, run string, e runs.Entry) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.entry = run, e
	return f.status.Run, f.err
}

func (f *fakeAPI) Remove(_ context.Context, run string) (*control.Removed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	return &control.Removed{Run: f.status.Run, Freed: &f.collected}, f.err
}

func (f *fakeAPI) Collect(_ context.Context, o control.CollectOptions) (*retention.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.batches {
		o.Progress(i+1, f.batches)
	}
	o.Progress = nil
	f.asked.collect = o
	return &f.collected, f.err
}

func (f *fakeAPI) Drain(_ context.Context, worker string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []string{worker + "-1", worker + "-2"}, f.err
}

func (f *fakeAPI) Results(_ context.Context, run string) (*results.Results, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	r := f.results
	return &r, f.err
}

func (f *fakeAPI) Rounds(_ context.Context, run string) (*results.Rounds, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	r := f.rounds
	return &r, f.err
}

func (f *fakeAPI) Curve(_ context.Context, run, cell string, points int) (*results.Curve, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.points = run, cell, points
	c := f.curve
	return &c, f.err
}

func (f *fakeAPI) Canaries(_ context.Context, run, cell string, points int) (*results.CanaryLives, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.points = run, cell, points
	l := f.lives
	return &l, f.err
}

func (f *fakeAPI) Surroundings(_ context.Context, run, cell string, canary, round int) (*control.Surroundings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.canary, f.asked.round = run, cell, canary, round
	s := f.surroundings
	return &s, f.err
}

func (f *fakeAPI) History(_ context.Context, run string) (*control.History, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	h := f.history
	return &h, f.err
}

func (f *fakeAPI) Pictures(_ context.Context, run string, shown results.Shown) ([]results.Picture, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.shown = run, shown
	found := []results.Picture{}
	for _, p := range f.pictures {
		if (shown.Cell == "" || shown.Cell == p.Cell) && (shown.Round == 0 || shown.Round == p.Round) {
			found = append(found, p)
		}
	}
	return found, f.err
}

func (f *fakeAPI) Model(_ context.Context, run, cell string, round int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.round = run, cell, round
	return f.model, f.err
}

func (f *fakeAPI) Prepared(_ context.Context, run, cell, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.prepared = run, cell, name
	return f.model, f.err
}

func (f *fakeAPI) Data(_ context.Context, run, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.table, f.asked.format = run, cell, table, format
	_, err := w.Write(f.data)
	return cmp.Or(err, f.err)
}

func (f *fakeAPI) Nodes(_ context.Context, run string, which control.NodeQuery) ([]control.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.nodes = run, which.Cell, which
	return f.nodes, f.err
}

func (f *fakeAPI) Lineage(_ context.Context, run, cell, key string) (*control.Lineage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell, f.asked.node = run, cell, key
	x := f.lineage
	return &x, f.err
}

func (f *fakeAPI) Workers(context.Context) (*status.Fleet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.fleet
	return &x, f.err
}

func (f *fakeAPI) Experiment(_ context.Context, run string) (*experiment.Spec, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run = run
	return &f.spec, f.err
}

func (f *fakeAPI) Spending(_ context.Context, run, cell string) (control.Spending, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.cell = run, cell
	return f.spending, f.err
}

func (f *fakeAPI) Logs(_ context.Context, run, node string) ([]control.AttemptLog, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked.run, f.asked.node = run, node
	return f.logs, f.err
}

// Tokens of the tests.
const (
	operatorToken = "operator-token-of-the-tests"
	readerToken   = "reader-token-of-the-tests"
)

// quick is a pace for tests: fast, and yet with time for several changes to
// fall between two looks.
var quick = pace{run: time.Millisecond, list: time.Millisecond, idle: time.Millisecond}

// newTestServer is a server for tests that need no network.
func newTestServer(t testing.TB, api control.API, o Options) *Server {
	t.Helper()
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	s := must.Get(NewServer(api, o))(t)
	s.pace = quick
	if test, ok := t.(*testing.T); ok { // a fuzz target asks for anything
		s.handler = held(test, s.handler)
	}
	t.Cleanup(s.feeds.close)
	return s
}

// start serves until the test ends or stop is called, and returns a client
// with the operator's token, if there is one.
func start(t testing.TB, api control.API, o Options) (c *Client, stop func()) {
	t.Helper()
	return startOn(t, newTestServer(t, api, o), "127.0.0.1:0")
}

func startOn(t testing.TB, s *Server, address string) (c *Client, stop func()) {
	t.Helper()
	l := must.Get(net.Listen("tcp", address))(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return client(t, "http://"+l.Addr().String(), s.options.OperatorToken), stop
}

func client(t testing.TB, address, token string) *Client {
	t.Helper()
	c := must.Get(NewClient(address, token))(t)
	c.watch.first = time.Millisecond
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// answer is a server's response to a request made by hand.
type answer struct {
	*http.Response
	body string
}

func (c *Client) ask(t testing.TB, method, path string, body io.Reader, header http.Header) answer {
	t.Helper()
	r := must.Get(http.NewRequest(method, c.base.String()+path, body))(t)
	if header != nil {
		r.Header = header
		r.Host = cmp.Or(header.Get("Host"), r.Host)
	}
	response := must.Get(c.http.Do(r))(t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	return answer{response, string(text)}
}

// header makes one of name and value in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}
