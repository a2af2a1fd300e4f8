package s3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// silence is the maximum time without a byte in either direction of a connection during a request;
// then the request fails and is sent again on another connection. It limits the cost of a server
// that has stopped or vanished without closing, for any size of the object: a transfer that makes
// progress has no limit.
const silence = 15 * time.Second

// maxSilences is the number of consecutive tries of an operation that may end in silence. Further
// tries then fail at once, so the caller notices a hanging server after about a minute.
const maxSilences = 3

// newTransport limits every wait for a dead peer.
func newTransport(config Config, silence time.Duration) (http.RoundTripper, error) {
	files, err := config.TLS.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	traffic := &traffic{quiet: silence / 3, warn: func() {
		slog.Warn("the store does not answer; waiting for it", "store", config.URL())
	}}
	return patience{traffic: traffic, RoundTripper: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watchedConn{Conn: conn, silence: silence, traffic: traffic}, nil
		},
		TLSClientConfig:       files,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       silence / 2, // an older connection may be dead; a retry gets a new one
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: 10 * time.Second,
		DisableCompression:    true, // objects arrive unchanged
	}}, nil
}

// patience ends an operation whose tries end in silence. The client's retries
// cannot: they do not distinguish errors.
type patience struct {
	http.RoundTripper
	traffic *traffic
}

type silencesKey struct{}

// patient returns the context of one operation, with a count of its silences.
// Nested operations on the same store share the count.
func patient(ctx context.Context) context.Context {
	if ctx.Value(silencesKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, silencesKey{}, new(atomic.Int32))
}

var errSilent = fmt.Errorf("the server takes requests and does not answer: %d tries in a row ended in silence", maxSilences)

func (p patience) RoundTrip(r *http.Request) (*http.Response, error) {
	listing, ok := r.Context().Value(passKey{}).(*pass)
	if !ok {
		return p.try(r)
	}
	if err := listing.begin(r); err != nil {
		return nil, err
	}
	answer, err := p.try(r)
	listing.end(r, answer)
	return answer, err
}

// try sends a request unless the earlier ones ended in silence.
func (p patience) try(r *http.Request) (*http.Response, error) {
	end := p.traffic.await()
	defer end()
	silences, counted := r.Context().Value(silencesKey{}).(*atomic.Int32)
	if !counted {
		return p.RoundTripper.RoundTrip(r)
	}
	if silences.Load() >= maxSilences {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errSilent
	}
	response, err := p.RoundTripper.RoundTrip(r)
	if err == nil {
		p.traffic.answered()
	}
	if isTimeout(err) {
		silences.Add(1)
	} else {
		silences.Store(0)
	}
	return response, err
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// watchedConn times out a connection that has been silent too long.
type watchedConn struct {
	net.Conn
	silence time.Duration
	traffic *traffic
}

func (c *watchedConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.silence)) // fails on a closed connection, as Read then does
	n, err := c.Conn.Read(p)
	c.traffic.moved()
	return n, err
}

// Write implements net.Conn. The transport waits for the answer during writes:
// each write extends that deadline.
func (c *watchedConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.silence))
	n, err := c.Conn.Write(p)
	c.traffic.moved()
	return n, err
}

// traffic warns once of a server that answers no request while no byte moves on any connection; patience
// returns the error, after further tries.
type traffic struct {
	quiet time.Duration
	warn  func()

	mu     sync.Mutex
	last   time.Time // when the last byte moved
	warned bool      // since the last answer
}

func (x *traffic) moved() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = time.Now()
}

func (x *traffic) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.warned = false
}

// await begins the wait for an answer; the returned function ends it.
func (x *traffic) await() (end func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(x.quiet, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		silent := min(time.Since(began), time.Since(x.last))
		switch {
		case silent < x.quiet:
			timer.Reset(x.quiet - silent)
		case !x.warned:
			x.warned = true
			x.warn()
		}
	})
	return func() { timer.Stop() }
}
