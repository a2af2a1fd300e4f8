package contracts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/goroutines"
)

// maxLine is the limit on a line, in bytes.
const maxLine = 64 << 20

// Protocol names a program and the rules of its contract.
type Protocol struct {
	// Who is "command" or "program" in messages, and Name is its name there.
	Who, Name string
	// Patience is the time to answer, unless the command's terms set it.
	Patience time.Duration
	// MoreTime advises after a late answer, with "; " before it.
	MoreTime string
	// OneObjectALine is broken by a line that is not an answer.
	OneObjectALine Rule
	// OneAnswerEach is broken by an unexpected answer, and by a missing one.
	OneAnswerEach Rule
	// FiniteNumbers is broken by NaN and Infinity.
	FiniteNumbers Rule
	// EndsWithItsInput is broken by a program that ends in another way.
	EndsWithItsInput Rule
}

// RaiseAnswer is the advice of programs that training.limits.answer and --timeout give more time.
const RaiseAnswer = "; raise --timeout, or training.limits.answer in an experiment, or send less in a request"

// LateError reports an answer or an end that did not come in time.
type LateError struct{ error }

func (e *LateError) Unwrap() error { return e.error }

// RefusedError reports a request that a program answered with an error. Retry reports that the same request
// may succeed later. Diverged is the program's description of a training that diverged; nil for none.
type RefusedError struct {
	Method, Message string
	Retry           bool
	Diverged        json.RawMessage
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("it answers %s by the error %q", e.Method, e.Message)
}

// Retryable reports whether the request may succeed in another process after err: if the process died, was
// late or asked to retry, but not if it broke a rule or exceeded its memory.
func Retryable(err error) bool {
	if _, late := errors.AsType[*LateError](err); late {
		return true
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Retry
	}
	_, large := errors.AsType[*childprocess.MemoryError](err)
	return !large && RuleOf(err).Number == 0
}

// Conversation is the conversation with a running program. It is safe for concurrent use.
type Conversation struct {
	child    *childprocess.Process
	protocol Protocol
	lines    chan []byte // to be written
	unwatch  func() bool // stops watching its context; false if that has ended

	mu      sync.Mutex
	asked   int64                 // last id
	pending map[int64]chan answer // each has room for its answer
	failure error                 // set before over is closed
	over    chan struct{}
	closing chan struct{} // closed by Close
	closed  sync.Once
	ended   sync.Once
}

// Start starts a program. It is killed when ctx ends, and otherwise ends with Close.
func Start(ctx context.Context, c *childprocess.Command, s Protocol) (*Conversation, error) {
	child, err := c.Start()
	if err != nil {
		return nil, fmt.Errorf("%s %w", s.Who, err)
	}
	s.Patience = cmp.Or(goroutines.Seconds(c.AnswerSeconds), s.Patience)
	t := &Conversation{child: child, protocol: s, lines: make(chan []byte), pending: map[int64]chan answer{}, over: make(chan struct{}), closing: make(chan struct{})}
	t.unwatch = context.AfterFunc(ctx, func() { t.Kill(context.Cause(ctx)) })
	go t.write()
	go t.read()
	return t, nil
}

// Over returns a channel that is closed when the conversation has ended.
func (t *Conversation) Over() <-chan struct{} { return t.over }

// Usable reports whether the program runs and has answered all requests.
func (t *Conversation) Usable() bool {
	select {
	case <-t.over:
		return false
	default:
		return t.unanswered() == 0
	}
}

func (t *Conversation) unanswered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// Requests counts the requests so far.
func (t *Conversation) Requests() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// Kill ends the program at once.
func (t *Conversation) Kill(reason error) { t.child.Kill(reason) }

var errUnwanted = errors.New("no request waits for its answer")

// Close ends the program's input. It kills a program that does not end soon after, or that still owes an answer.
// The error reports an end that breaks the contract; it is a *LateError if the end was only late, and nil if the
// context of Start ended the program.
func (t *Conversation) Close() error {
	t.closed.Do(func() { close(t.closing) })
	killed := !t.unwatch()
	unwanted := t.unanswered() > 0
	if unwanted {
		t.Kill(errUnwanted)
	}
	err := t.child.Close()
	if err == nil || unwanted || killed {
		return nil
	}
	broken := t.withLastLines(t.protocol.EndsWithItsInput.Errorf("%v", err))
	if _, late := errors.AsType[*childprocess.LateError](err); late {
		broken = &LateError{broken}
	}
	return t.Explain(broken)
}

// Ask sends a request and decodes the result. about is nil, or marshals as an object whose fields are added
// to id and method. subject describes the request in messages. An error of decode ends the program. When ctx
// ends, a later answer is dropped. An error answer is a *RefusedError.
func (t *Conversation) Ask(ctx context.Context, method, subject string, about any, decode func(json.RawMessage) error) error {
	a, err := t.exchange(ctx, method, subject, about)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return t.Explain(err)
	case a.Error != nil:
		return t.Explain(&RefusedError{method, childprocess.Printable(a.Error.Message, maxMessage), a.Error.Retry, a.Error.Diverged})
	}
	if err := decode(a.Result); err != nil {
		t.fail(err) // unless the conversation has ended
		return t.Explain(t.withLastLines(err))
	}
	return nil
}

// maxMessage is the limit on quotes of an error's message, in characters.
const maxMessage = 300

// Explain adds the name of the program to an error.
func (t *Conversation) Explain(err error) error {
	return fmt.Errorf("%s %q: %w", t.protocol.Who, t.protocol.Name, err)
}

// Refuses checks that a program answers a request with an error that has a message, as a rule requires, and
// continues. accepted returns the error for a result.
func (t *Conversation) Refuses(ctx context.Context, rule Rule, method string, about any, accepted func(json.RawMessage) error, goesOn func() error) error {
	err := t.Ask(ctx, method, method, about, accepted)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	if refused.Message == "" {
		return rule.Errorf("its error has no message; expected a description of the failure")
	}
	if err := goesOn(); err != nil {
		return fmt.Errorf("after an error: %w", err)
	}
	return nil
}

// RefusesUnknown checks that a program refuses an unknown method.
func (t *Conversation) RefusesUnknown(ctx context.Context, unknown, errors Rule, goesOn func() error) error {
	const method = "no_such_method"
	return t.Refuses(ctx, errors, method, nil, func(result json.RawMessage) error {
		return unknown.Errorf("it answers the method %q by %s; expected an error", method, Quote(result))
	}, goesOn)
}

func (t *Conversation) exchange(ctx context.Context, method, subject string, about any) (*answer, error) {
	id, answered := t.expect()
	line, err := encode(id, method, about)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(t.protocol.Patience)
	defer late.Stop()
	lines := t.lines
	for {
		select {
		case lines <- line:
			lines = nil // sent once
		case a := <-answered:
			return &a, nil
		case <-t.over:
			return t.left(ctx, answered)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			t.fail(&LateError{t.protocol.OneAnswerEach.Errorf("it did not answer request %d (%s) within %v%s", id, subject, t.protocol.Patience, t.protocol.MoreTime)})
		}
	}
}

// left returns an answer that arrived before the conversation ended, or the failure that ended it.
func (t *Conversation) left(ctx context.Context, answered <-chan answer) (*answer, error) {
	select {
	case a := <-answered:
		return &a, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, t.failure
}

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

// expect reserves the next id and a channel for its answer.
func (t *Conversation) expect() (int64, <-chan answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	answered := make(chan answer, 1)
	t.pending[t.asked] = answered
	return t.asked, answered
}

// write sends lines in order, so that no caller blocks on a child that does not read.
func (t *Conversation) write() {
	for {
		select {
		case line := <-t.lines:
			if _, err := t.child.Input.Write(line); err != nil {
				return // it has ended, which read detects
			}
		case <-t.over:
			return
		}
	}
}

// read delivers answers until the child ends or breaks the contract.
func (t *Conversation) read() {
	lines := bufio.NewReaderSize(t.child.Output, 64<<10)
	for {
		line, err := t.readLine(lines)
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = t.cutShort(line, goroutines.Recover(func() error { return t.deliver(line) }))
		}
		if err != nil {
			go func() { _, _ = io.Copy(io.Discard, lines) }() // a full pipe would block it; its further output is unused
			t.fail(err)
			return
		}
	}
}

// readLine reads a line of bounded length. The last line need not end in a newline.
func (t *Conversation) readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, t.protocol.OneObjectALine.Errorf("it printed a line of more than %d MiB, which begins with %s; expected an answer", maxLine>>20, Quote(line))
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

// cutShort returns the error of a line, which is errEnded if the child died while it wrote the line.
func (t *Conversation) cutShort(line []byte, err error) error {
	if err == nil || bytes.HasSuffix(line, []byte("\n")) {
		return err
	}
	t.awaitEnd()
	if t.child.Ended() != nil {
		return errEnded
	}
	return err
}

// errEnded reports that the output of the child has ended.
var errEnded = errors.New("its output ended")

// deliver hands an answer to the request that waits for it.
func (t *Conversation) deliver(line []byte) error {
	a, err := t.protocol.parse(line)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	answered, ok := t.pending[*a.ID]
	switch {
	case ok:
		delete(t.pending, *a.ID)
		answered <- *a
		return nil
	case *a.ID >= 1 && *a.ID <= t.asked:
		return t.protocol.OneAnswerEach.Errorf("it answered request %d twice, the second time by %s", *a.ID, Quote(line))
	}
	return t.protocol.OneAnswerEach.Errorf("it answered request %d, which it was not asked; the last one was %d", *a.ID, t.asked)
}

// fail ends the conversation and the program. Only the first failure is kept.
func (t *Conversation) fail(err error) {
	t.ended.Do(func() {
		if errors.Is(err, errEnded) {
			t.awaitEnd()
			err = t.explainEnd()
		} else {
			t.child.Kill(err)
			<-t.child.Done()
		}
		t.failure = t.withLastLines(err)
		close(t.over)
	})
}

// errSilent reports a child that can answer no more and does not end.
var errSilent = errors.New("it closed its standard output and did not end")

// maxLinger is the time that a child has to end after its output.
const maxLinger = 5 * time.Second

// awaitEnd waits for the end of a child whose output has ended, and kills a child that lives on. A child that is
// being closed has the grace of its command.
func (t *Conversation) awaitEnd() {
	late := time.NewTimer(min(t.protocol.Patience, maxLinger))
	defer late.Stop()
	select {
	case <-t.child.Done():
	case <-t.closing:
	case <-late.C:
		t.child.Kill(errSilent)
	}
	<-t.child.Done()
}

// EndedError reports a program that ended before the conversation did.
type EndedError struct {
	How error
	// Unanswered requests, out of Asked.
	Unanswered, Asked int64
}

func (e *EndedError) Error() string {
	if e.Unanswered == 0 {
		return e.How.Error()
	}
	return fmt.Sprintf("%v, and left %d of %d requests unanswered", e.How, e.Unanswered, e.Asked)
}

func (e *EndedError) Unwrap() error { return e.How }

// Exit returns the message of an end that is not by a signal, and "" for any other error. The message lacks the
// numbers of requests, so that programs which end alike have equal messages.
func Exit(err error) string {
	ended, ok := errors.AsType[*EndedError](err)
	if !ok || childprocess.BySignal(ended.How) {
		return ""
	}
	return strings.Replace(err.Error(), ended.Error(), ended.How.Error(), 1)
}

// explainEnd returns the error of a program that ended on its own.
func (t *Conversation) explainEnd() error {
	how := t.child.Ended()
	if how == nil {
		how = errors.New("it ended with exit status 0")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &EndedError{how, int64(len(t.pending)), t.asked}
}

// withLastLines adds the last lines of the program to an error.
func (t *Conversation) withLastLines(err error) error {
	lines := t.child.LastLines()
	if len(lines) == 0 {
		return fmt.Errorf("%w; it printed nothing to standard error", err)
	}
	return fmt.Errorf("%w; its last lines on standard error:\n  %s", err, strings.Join(childprocess.Explained(lines), "\n  "))
}
