package clients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/tasks/clientprograms"
)

// Options configure the programs of a pool.
type Options struct {
	// Terms apply to all programs. The memory and the answer time of a setting take precedence; its network
	// and environment are added.
	childprocess.Terms
	// Write are directories that programs may write to in addition to their own.
	Write []string
	// Grace is the time for a program to end after its input ends; 0 for childprocess.DefaultGrace.
	Grace time.Duration
	// Idle is the time after which an idle program ends; 0 stands for DefaultIdle.
	Idle time.Duration
	// Directory is the directory of parameter files; "" stands for shared memory.
	Directory string
}

// Defaults of Options. DefaultTimeout applies to an answer, and to the start of a program.
const (
	DefaultTimeout = 10 * time.Minute
	DefaultIdle    = time.Minute
)

// Pool runs programs. It implements clientprograms.Runner.
type Pool struct {
	options Options

	mu     sync.Mutex
	files  *files // nil before the first program
	idle   map[string][]*program
	closed bool
	ending sync.WaitGroup // programs that are ending
}

var _ clientprograms.Runner = (*Pool)(nil)

// NewPool returns an empty pool. It must be closed.
func NewPool(o Options) *Pool {
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	o.Directory = cmp.Or(o.Directory, sharedMemory())
	return &Pool{options: o, idle: map[string][]*program{}}
}

var errClosed = errors.New("the worker is shutting down and starts no more programs")

func (p *Pool) Borrow(ctx context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	name, err := nameOf(&s)
	if err != nil {
		return nil, err
	}
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	for {
		c := p.take(name)
		if c == nil {
			break
		}
		if c.conversation.Usable() {
			return c, nil
		}
		_ = c.end() // it died while idle, and another replaces it
	}
	return start(ctx, p, f, name, s)
}

func (p *Pool) open() (*files, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	var err error
	if p.files == nil {
		p.files, err = openFiles(p.options.Directory)
	}
	return p.files, err
}

// nameOf returns a text that identifies a setting.
func nameOf(s *clientprograms.Setting) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("setting of the program %q: %w", s.Command, err)
	}
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:]), nil
}

// take returns the most recently used idle program; nil if there is none.
func (p *Pool) take(name string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[name]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	p.idle[name] = list[:len(list)-1]
	c.leaving.Stop()
	return c
}

// put makes a program idle, or ends it.
func (p *Pool) put(c *program) {
	if !c.conversation.Usable() {
		_ = c.end() // the caller has the error
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.ending.Go(func() { _ = c.end() })
		return
	}
	p.idle[c.name] = append(p.idle[c.name], c)
	c.leaving = time.AfterFunc(p.options.Idle, func() { p.leave(c) })
}

// leave ends a program if it is still idle.
func (p *Pool) leave(c *program) {
	p.mu.Lock()
	at := slices.Index(p.idle[c.name], c)
	if at < 0 {
		p.mu.Unlock()
		return
	}
	p.idle[c.name] = slices.Delete(p.idle[c.name], at, at+1)
	p.ending.Add(1)
	p.mu.Unlock()
	defer p.ending.Done()
	_ = c.end() // it has completed all requests
}

// Close ends all idle programs, and waits for them. Borrowed programs end when they are given back. No
// further program is started.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, list := range p.idle {
		for _, c := range list {
			c.leaving.Stop() // if it is too late, leave finds the program no longer idle
			p.ending.Go(func() { _ = c.end() })
		}
	}
	clear(p.idle)
	f := p.files
	p.mu.Unlock()
	p.ending.Wait()
	if f != nil {
		f.Close()
	}
}
