package score

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"coalmine/internal/childprocess"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 20

// conversation is what is asked of a child and has been answered by it. Whatever breaks the
// contract ends it.
type conversation struct {
	child *childprocess.Process
	lines chan []byte // to be written

	mu      sync.Mutex
	asked   int64                 // the last id
	pending map[int64]chan answer // each has room for its answer
	failure error                 // set before over is closed
	over    chan struct{}
	ended   sync.Once
}

func converse(child *childprocess.Process) *conversation {
	c := &conversation{child: child, lines: make(chan []byte), pending: map[int64]chan answer{}, over: make(chan struct{})}
	go c.write()
	go c.read()
	return c
}

// ask sends a request and waits for its answer, at most so long.
func (c *conversation) ask(ctx context.Context, timeout time.Duration, method string, about payload) (*answer, error) {
	id, answered := c.expect()
	line, err := json.Marshal(request{id, method, about})
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	late := time.NewTimer(timeout)
	defer late.Stop()
	lines := c.lines
	for {
		select {
		case lines <- line:
			lines = nil // once
		case a := <-answered:
			return &a, nil
		case <-c.over:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, c.failure
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			c.fail(OneAnswerEach.broken("it did not answer request %d (%s) within %v; allow more time, or send less in a request", id, describeRequest(method, &about), timeout))
		}
	}
}

func describeRequest(method string, about *payload) string {
	if n := len(about.Pairs) + len(about.Prompts); n > 0 {
		return fmt.Sprintf("%s, %d of them", method, n)
	}
	return method
}

// expect makes the next id and a place for its answer.
func (c *conversation) expect() (int64, <-chan answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	answered := make(chan answer, 1)
	c.pending[c.asked] = answered
	return c.asked, answered
}

// write sends lines one after another, so that none waits for a child that does not read.
func (c *conversation) write() {
	for {
		select {
		case line := <-c.lines:
			if _, err := c.child.Input.Write(line); err != nil {
				return // it has ended, which read finds
			}
		case <-c.over:
			return
		}
	}
}

// read takes answers until the child ends or breaks the contract.
func (c *conversation) read() {
	lines := bufio.NewReaderSize(c.child.Output, 64<<10)
	for {
		line, err := readLine(lines)
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = c.deliver(line)
		}
		if err != nil {
			go func() { _, _ = io.Copy(io.Discard, lines) }() // a full pipe would keep it; what it still says is of no use
			c.fail(err)
			return
		}
	}
}

// readLine reads a line of bounded length. What stands before the end of the output without
// an end of its line is one too.
func readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, OneObjectALine.broken("it printed a line of more than %d MiB, which begins with %s; expected an answer", maxLine>>20, quote(line))
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) > 0:
			return line, nil
		case err != nil:
			return nil, errEnded
		}
		return line, nil
	}
}

// errEnded is that of a child whose output has ended.
var errEnded = errors.New("its output ended")

// deliver hands an answer to whoever waits for it.
func (c *conversation) deliver(line []byte) error {
	a, err := parse(line)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answered, ok := c.pending[*a.ID]
	switch {
	case ok:
		delete(c.pending, *a.ID)
		answered <- *a
		return nil
	case *a.ID >= 1 && *a.ID <= c.asked:
		return OneAnswerEach.broken("it answered request %d twice, the second time by %s", *a.ID, quote(line))
	}
	return OneAnswerEach.broken("it answered request %d, which it was not asked; the last one was %d", *a.ID, c.asked)
}

// fail ends the conversation and the child with it. The first failure counts.
func (c *conversation) fail(err error) {
	c.ended.Do(func() {
		if errors.Is(err, errEnded) {
			<-c.child.Done()
			err = c.explainEnd()
		} else {
			c.child.Kill(err)
			<-c.child.Done()
		}
		c.failure = withLastLines(err, c.child.LastLines())
		close(c.over)
	})
}

// explainEnd says how a child ended on its own.
func (c *conversation) explainEnd() error {
	how := c.child.Ended()
	if how == nil {
		how = errors.New("it ended with exit status 0")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		return fmt.Errorf("%w, and left %d of %d requests unanswered", how, len(c.pending), c.asked)
	}
	return how
}

// withLastLines adds what a child has said last.
func withLastLines(err error, lines []string) error {
	if len(lines) == 0 {
		return fmt.Errorf("%w; it said nothing on standard error", err)
	}
	return fmt.Errorf("%w; its last lines on standard error:\n  %s", err, strings.Join(lines, "\n  "))
}
