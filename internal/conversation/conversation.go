// Package conversation asks a child process by requests and answers of one JSON object a line,
// on its standard input and output: what the contracts of programs that are not ours have in
// common.
//
//	talk := conversation.Begin(child, conversation.Rules{...})
//	answer, err := talk.Ask(ctx, time.Minute, "describe", nil)
//
// An answer has the id of its request and a result or an error:
//
//	{"id": 7, "result": ...}
//	{"id": 7, "error": {"message": "out of memory", "retry": true}}
//
// Many requests may be under way, and are answered in any order. Whatever else the child says
// ends the conversation and the child, with an error that has its last lines.
package conversation

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
	"coalmine/internal/conformance"
	"coalmine/internal/recovered"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 20

// Rules are those of a contract that what a child says may break. All are given.
type Rules struct {
	// OneObjectALine is broken by what is no answer at all.
	OneObjectALine conformance.Rule
	// OneAnswerEach is broken by an answer that nobody waits for, and by one that does not come.
	OneAnswerEach conformance.Rule
	// FiniteNumbers is broken by NaN and Infinity.
	FiniteNumbers conformance.Rule
}

// LateError is that of an answer that does not come in time.
type LateError struct{ error }

func (e *LateError) Unwrap() error { return e.error }

// Mendable says whether another process that is asked the same may do better than one that failed
// with an error: one that died, or was late. Neither a broken rule nor too much memory is.
func Mendable(err error) bool {
	if _, late := errors.AsType[*LateError](err); late {
		return true
	}
	_, large := errors.AsType[*childprocess.MemoryError](err)
	return !large && conformance.RuleOf(err).Number == 0
}

// Talk is what is asked of a child and has been answered by it. It may be used from several
// goroutines.
type Talk struct {
	child *childprocess.Process
	rules Rules
	lines chan []byte // to be written

	mu      sync.Mutex
	asked   int64                 // the last id
	pending map[int64]chan Answer // each has room for its answer
	failure error                 // set before over is closed
	over    chan struct{}
	ended   sync.Once
}

// Begin talks with a child that nobody else talks with.
func Begin(child *childprocess.Process, rules Rules) *Talk {
	c := &Talk{child: child, rules: rules, lines: make(chan []byte), pending: map[int64]chan Answer{}, over: make(chan struct{})}
	go c.write()
	go c.read()
	return c
}

// Over is closed when the conversation has ended.
func (c *Talk) Over() <-chan struct{} { return c.over }

// Ask sends a request and waits for its answer, at most so long. about is nil, or becomes a
// JSON object whose fields stand beside id and method. what describes the request in messages.
// When ctx ends, an answer that comes later is dropped.
func (c *Talk) Ask(ctx context.Context, timeout time.Duration, method, what string, about any) (*Answer, error) {
	id, answered := c.expect()
	line, err := encode(id, method, about)
	if err != nil {
		return nil, err
	}
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
			return c.left(ctx, answered)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			c.Fail(&LateError{c.rules.OneAnswerEach.Broken("it did not answer request %d (%s) within %v; allow more time, or send less in a request", id, what, timeout)})
		}
	}
}

// left is what there is for a request when the conversation is over: an answer that came before, or
// why there is none.
func (c *Talk) left(ctx context.Context, answered <-chan Answer) (*Answer, error) {
	select {
	case a := <-answered:
		return &a, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, c.failure
}

// encode makes the line of a request.
func encode(id int64, method string, about any) ([]byte, error) {
	line, err := json.Marshal(struct {
		ID     int64  `json:"id"`
		Method string `json:"method"`
	}{id, method})
	if err != nil || about == nil {
		return append(line, '\n'), err
	}
	fields, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	if string(fields) != "{}" {
		line = append(append(line[:len(line)-1], ','), fields[1:]...)
	}
	return append(line, '\n'), nil
}

// expect makes the next id and a place for its answer.
func (c *Talk) expect() (int64, <-chan Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	answered := make(chan Answer, 1)
	c.pending[c.asked] = answered
	return c.asked, answered
}

// write sends lines one after another, so that none waits for a child that does not read.
func (c *Talk) write() {
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
func (c *Talk) read() {
	lines := bufio.NewReaderSize(c.child.Output, 64<<10)
	for {
		line, err := c.readLine(lines)
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = recovered.Do(func() error { return c.deliver(line) })
		}
		if err != nil {
			go func() { _, _ = io.Copy(io.Discard, lines) }() // a full pipe would keep it; what it still says is of no use
			c.Fail(err)
			return
		}
	}
}

// readLine reads a line of bounded length. What stands before the end of the output without
// an end of its line is one too.
func (c *Talk) readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, c.rules.OneObjectALine.Broken("it printed a line of more than %d MiB, which begins with %s; expected an answer", maxLine>>20, Quote(line))
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
func (c *Talk) deliver(line []byte) error {
	a, err := c.rules.Parse(line)
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
		return c.rules.OneAnswerEach.Broken("it answered request %d twice, the second time by %s", *a.ID, Quote(line))
	}
	return c.rules.OneAnswerEach.Broken("it answered request %d, which it was not asked; the last one was %d", *a.ID, c.asked)
}

// Fail ends the conversation and the child with it. The first failure counts.
func (c *Talk) Fail(err error) {
	c.ended.Do(func() {
		if errors.Is(err, errEnded) {
			<-c.child.Done()
			err = c.explainEnd()
		} else {
			c.child.Kill(err)
			<-c.child.Done()
		}
		c.failure = WithLastLines(err, c.child.LastLines())
		close(c.over)
	})
}

// EndedError is that of a child that ended although more was to be asked of it.
type EndedError struct {
	How error
	// Unanswered requests, of Asked.
	Unanswered, Asked int64
}

func (e *EndedError) Error() string {
	if e.Unanswered == 0 {
		return e.How.Error()
	}
	return fmt.Sprintf("%v, and left %d of %d requests unanswered", e.How, e.Unanswered, e.Asked)
}

func (e *EndedError) Unwrap() error { return e.How }

// explainEnd says how a child ended on its own.
func (c *Talk) explainEnd() error {
	how := c.child.Ended()
	if how == nil {
		how = errors.New("it ended with exit status 0")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &EndedError{how, int64(len(c.pending)), c.asked}
}

// WithLastLines adds what a child has said last.
func WithLastLines(err error, lines []string) error {
	if len(lines) == 0 {
		return fmt.Errorf("%w; it said nothing on standard error", err)
	}
	return fmt.Errorf("%w; its last lines on standard error:\n  %s", err, strings.Join(lines, "\n  "))
}
