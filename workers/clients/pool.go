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

// Options say how programs are run.
type Options struct {
	// Terms hold for all programs, each where the program's own say nothing.
	childprocess.Terms
	// Write are directories that programs may write to beside their own.
	Write []string
	// Grace is how long a program may take to end after its input has; 0 for childprocess.DefaultGrace.
	Grace time.Duration
	// Idle is how long a program stays that nobody needs; 0 stands for DefaultIdle.
	Idle time.Duration
	// Threads is how many a program is told to compute with; 0 stands for 1.
	Threads int
	// Directory is where files of parameters are; "" stands for shared memory.
	Directory string
}

// Defaults of Options. DefaultTimeout is that of one answer, and of the start of a program.
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
	ending sync.WaitGroup // programs that end by themselves
}

var _ clientprograms.Runner = (*Pool)(nil)

// NewPool is one without programs yet. It must be closed.
func NewPool(o Options) *Pool {
	o.Idle, o.Threads = cmp.Or(o.Idle, DefaultIdle), cmp.Or(o.Threads, 1)
	o.Directory = cmp.Or(o.Directory, sharedMemory())
	return &Pool{options: o, idle: map[string][]*program{}}
}

var errClosed = errors.New("the worker ends, and runs no programs any more")

// Borrow implements clientprograms.Runner.
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
		if c.talk.Usable() {
			return c, nil
		}
		_ = c.end() // it has died while nobody looked, and another takes its place
	}
	return start(ctx, p, f, name, s)
}

// open makes the directory of files, once.
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

// nameOf tells settings apart.
func nameOf(s *clientprograms.Setting) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("setting of the program %q: %w", s.Command, err)
	}
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:]), nil
}

// take returns an idle program, the one that was used last; nil if there is none.
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
	if !c.talk.Usable() {
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

// leave ends a program unless somebody has taken it.
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
	_ = c.end() // it did all that it was asked
}

// Close ends all programs that are idle, and waits for them. Those that are borrowed end when
// they are given back. No program is started any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, list := range p.idle {
		for _, c := range list {
			c.leaving.Stop() // or it finds that the program is idle no more
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
