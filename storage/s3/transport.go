package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// silence is how long a connection may carry no byte in either direction while a
// request is on its way; then the request has failed, and is sent again on another
// connection. It bounds what a server costs that has stopped, or has gone without a
// farewell, however large the object is: a transfer that moves has no limit.
const silence = 15 * time.Second

// maxSilences is how many tries of an operation in a row may end in silence. Those
// that are left then fail at once: the caller hears of a server that hangs after
// about a minute.
const maxSilences = 3

// newTransport has limits for everything that a dead peer could stall.
func newTransport(config Config, silence time.Duration) (http.RoundTripper, error) {
	files, err := config.TLS.Config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return patience{&http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watchedConn{Conn: conn, silence: silence}, nil
		},
		TLSClientConfig:       files,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       silence / 2, // what has waited for longer may be dead: who sends again gets a new one
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: 10 * time.Second,
		DisableCompression:    true, // objects come as they are stored
	}}, nil
}

// patience gives an operation up whose tries end in silence. The client's own
// repetition cannot: it counts errors, and takes a silence for one like any other.
type patience struct{ http.RoundTripper }

type silencesKey struct{}

// patient is the context of one operation, with a count of its silences. What an
// operation does by others of its own store counts with it.
func patient(ctx context.Context) context.Context {
	if ctx.Value(silencesKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, silencesKey{}, new(atomic.Int32))
}

var errSilent = fmt.Errorf("the server takes requests and does not answer: %d tries in a row ended in silence", maxSilences)

// RoundTrip implements http.RoundTripper.
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

// watchedConn ends a connection by a timeout that has carried nothing for a while.
type watchedConn struct {
	net.Conn
	silence time.Duration
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.silence)) // it fails on a closed connection, as Read then does
	return c.Conn.Read(p)
}

// Write implements net.Conn. The transport reads, in wait for the answer, while it
// writes: what is written puts the end of that wait off.
func (c *watchedConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.silence))
	return c.Conn.Write(p)
}
