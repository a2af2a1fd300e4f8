package testserver

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
)

// State is the treatment of bytes by a Link.
type State int

const (
	// Open forwards all bytes.
	Open State = iota
	// Cut resets every connection, old and new.
	Cut
	// Stalled holds all bytes back and delivers them once the state changes, like
	// a network that temporarily loses packets.
	Stalled
	// HalfOpen discards all bytes while connections appear alive. The next state
	// resets those that lost some: the peer has forgotten them.
	HalfOpen
	// Slow forwards at most slowChunk bytes every slowPause in each direction.
	Slow
)

func (s State) String() string { return [...]string{"open", "cut", "stalled", "half-open", "slow"}[s] }

const (
	slowChunk = 16 << 10
	slowPause = 10 * time.Millisecond
)

// Link is a TCP proxy in front of a server. It is safe for concurrent use.
type Link struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced when the state changes
	pairs   map[*pair]bool
	closed  bool
}

// pair is a client connection with its connection to the server.
type pair struct {
	client, server net.Conn // server is nil if it was not reached
	lost           bool     // it has discarded bytes
}

// reset ends both sides with a TCP reset.
func (p *pair) reset() {
	for _, conn := range []net.Conn{p.client, p.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // then Close sends a reset
			_ = tcp.Close()
		}
	}
}

// NewLink opens a link to the server at an address. It lasts as long as the test.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := &Link{target: target, listener: listener, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	l.pumps.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// Addr returns the host:port for clients.
func (l *Link) Addr() string { return l.listener.Addr().String() }

func (l *Link) Set(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(s)
}

func (l *Link) set(s State) {
	for p := range l.pairs {
		if s == Cut || p.lost {
			p.reset()
		}
	}
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
}

// Reset ends all present connections; new ones work.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.reset()
	}
}

func (l *Link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.set(Cut)
	l.mu.Unlock()
	l.pumps.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // the link is closed
		}
		l.pumps.Go(func() { l.serve(client) })
	}
}

// serve connects a client with the server until one of them ends.
func (l *Link) serve(client net.Conn) {
	p := &pair{client: client}
	if l.awaitPassing() {
		p.server, _ = net.DialTimeout("tcp", l.target, time.Second)
	}
	if p.server == nil || !l.add(p) {
		p.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(p, p.client, p.server) })
	both.Go(func() { l.pump(p, p.server, p.client) })
	both.Wait()
	l.remove(p)
}

// awaitPassing waits until a new connection may reach the server. A half-open
// link accepts connections without a server.
func (l *Link) awaitPassing() bool {
	for {
		state, changed := l.now()
		switch state {
		case Cut:
			return false
		case Open, Slow:
			return true
		case Stalled, HalfOpen: // until the state changes
		}
		<-changed
		if state == HalfOpen {
			return false
		}
	}
}

func (l *Link) now() (State, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

func (l *Link) add(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.state == Cut {
		return false
	}
	l.pairs[p] = true
	return true
}

func (l *Link) remove(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

// pump forwards bytes in one direction. Its end closes the other side for
// writing, or completely if the pair is broken.
func (l *Link) pump(p *pair, from, to net.Conn) {
	buffer := make([]byte, slowChunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 && l.mayPass(p) {
			if _, err := to.Write(buffer[:n]); err != nil {
				p.reset()
				return
			}
		}
		if err != nil {
			l.mayPass(p) // the end of a connection is held back like its bytes
			closeWrite(p, to, err)
			return
		}
	}
}

func closeWrite(p *pair, to net.Conn, err error) {
	if _, failed := errors.AsType[*net.OpError](err); failed {
		p.reset()
		return
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// mayPass waits while the link is stalled, and reports whether to forward the bytes read.
func (l *Link) mayPass(p *pair) bool {
	for {
		l.mu.Lock()
		state, changed := l.state, l.changed
		p.lost = p.lost || state == HalfOpen
		lost := p.lost
		l.mu.Unlock()
		switch {
		case lost:
			return false
		case state == Slow:
			time.Sleep(slowPause)
			return true
		case state == Stalled:
			<-changed
		default:
			return true
		}
	}
}
