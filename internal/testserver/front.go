package testserver

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"testing"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
)

// Fault is the treatment of one request.
type Fault int

const (
	// None forwards request and answer.
	None Fault = iota
	// Unavailable answers 503 instead of the server.
	Unavailable
	// Failing answers 500 instead of the server.
	Failing
	// Lost resets the connection before the server receives the request.
	Lost
	// Unanswered lets the server execute the request, and resets the connection.
	Unanswered
	// Late forwards the answer after the pause lateness.
	Late
	// Trickling forwards the answer's body in many small pieces.
	Trickling
	// Truncated closes the connection in the middle of the answer's body.
	Truncated
	// Short forwards a complete answer with a body that lacks its end.
	Short
	// Flipped changes a bit of the answer's body.
	Flipped
)

func (s Fault) String() string {
	return [...]string{"none", "503", "500", "request lost", "answer lost", "late answer",
		"slow body", "truncated body", "short body", "flipped bit"}[s]
}

const (
	lateness      = 1500 * time.Millisecond
	tricklePieces = 32
	tricklePause  = 10 * time.Millisecond
)

// Front is an HTTP server that forwards requests to another one.
type Front struct {
	server  *http.Server
	address string
	ended   chan struct{}

	mu     sync.Mutex
	choose func(*http.Request) Fault
	watch  func(*http.Request, int)
}

// NewFront opens a front to the server at an address. It lasts as long as the test.
func NewFront(t testing.TB, target string) *Front {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := &Front{address: listener.Addr().String(), ended: make(chan struct{})}
	f.server = &http.Server{Handler: f.handler(target)}
	go func() {
		_ = f.server.Serve(listener) // until it is closed
		close(f.ended)
	}()
	t.Cleanup(func() {
		_ = f.server.Close()
		<-f.ended
	})
	return f
}

// Addr returns the host:port for clients.
func (f *Front) Addr() string { return f.address }

// SetFault calls choose for every request from now on; nil spoils nothing. choose is called concurrently.
func (f *Front) SetFault(choose func(*http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
}

// Watch calls seen for every request that the server has answered, with the status
// of its answer, before the client gets it. seen is called concurrently.
func (f *Front) Watch(seen func(r *http.Request, status int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = seen
}

func (f *Front) spoiling(r *http.Request) Fault {
	f.mu.Lock()
	choose := f.choose
	f.mu.Unlock()
	if choose == nil {
		return None
	}
	return choose(r)
}

// handler forwards every request unchanged: its signature covers the host name that the client used.
func (f *Front) handler(target string) http.Handler {
	// Only the server's address changes in a request.
	direct := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", target, r.In.Host
		},
		// A connection that was idle while the server died must not cause a failure.
		Transport:      &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval:  -1,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: f.answered,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch s := f.spoiling(r); s {
		case Unavailable:
			refuse(w, r, http.StatusServiceUnavailable, "SlowDown")
		case Failing:
			refuse(w, r, http.StatusInternalServerError, "InternalError")
		case Lost:
			reset(w)
		case None:
			direct.ServeHTTP(w, r)
		case Unanswered, Late, Trickling, Truncated, Short, Flipped:
			answer := &recorded{header: http.Header{}, status: http.StatusOK}
			direct.ServeHTTP(answer, r)
			answer.deliver(w, r, s)
		}
	})
}

func (f *Front) answered(response *http.Response) error {
	f.mu.Lock()
	watch := f.watch
	f.mu.Unlock()
	if watch != nil {
		watch(response.Request, response.StatusCode)
	}
	return nil
}

// refuse reads the whole request, like most failing servers.
func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body) // a client that goes away needs no answer
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>`+code+`</Code><Message>a test has chosen this answer</Message></Error>`)
}

// reset closes the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// recorded is an answer kept in memory.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *recorded) Header() http.Header { return a.header }

func (a *recorded) Write(p []byte) (int, error) { return a.body.Write(p) }

// WriteHeader implements http.ResponseWriter. Provisional answers are dropped.
func (a *recorded) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.status = status
	}
}

func (a *recorded) deliver(w http.ResponseWriter, r *http.Request, s Fault) {
	if s == Unanswered {
		reset(w)
		return
	}
	if s == Late {
		_ = goroutines.Sleep(r.Context(), lateness) // shorter if the client disconnects
	}
	body := a.body.Bytes()
	cut := 0 // damage varies in position, as on a bad line
	if len(body) > 0 {
		cut = rand.N(len(body))
	}
	if s == Flipped && len(body) > 0 {
		body[cut] ^= 1 << rand.N(8)
	}
	if s == Short {
		body = body[:cut]
		a.header.Set("Content-Length", strconv.Itoa(cut))
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	switch {
	case s == Truncated && len(body) > 0:
		_, _ = w.Write(body[:cut])
		_ = http.NewResponseController(w).Flush() // otherwise it would be lost with the connection
		panic(http.ErrAbortHandler)
	case s == Trickling:
		trickle(w, r, body)
	default:
		_, _ = w.Write(body) // a failure means that the client is gone
	}
}

func trickle(w http.ResponseWriter, r *http.Request, body []byte) {
	piece := max(len(body)/tricklePieces, 1)
	for len(body) > 0 {
		n := min(piece, len(body))
		if _, err := w.Write(body[:n]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		body = body[n:]
		_ = goroutines.Sleep(r.Context(), tricklePause) // the next write detects a disconnected client
	}
}
