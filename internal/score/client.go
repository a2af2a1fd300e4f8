// Package score scores texts by a model that is not ours, through a command that speaks
// the contract "score", docs/contracts/score.md: requests and answers are JSON objects, one a
// line, on its standard input and output.
//
//	client, err := score.Start(ctx, score.Options{Command: []string{"python3", "scorer.py"}})
//	...
//	defer client.Close()
//	answers, err := client.LogLikelihoods(ctx, []score.Pair{{"my pin is", " 1234"}}, 32)
//	// answers[0].LogProb is that of " 1234" after "my pin is"
//
// Check says what an implementation does wrong.
package score

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/conversation"
	"coalmine/internal/sleep"
)

// Options say which command is asked, and how.
type Options struct {
	// Command is the program and its arguments. It must not be empty.
	Command []string
	// Dir is where it runs; "" for this program's directory.
	Dir string
	// Offline takes the network from it, where the platform lets us.
	Offline bool
	// Write are directories that it may write to, where the platform lets us keep it from others;
	// nil is for a command that is trusted.
	Write []string
	// Name stands for the command in messages; "" for the command itself.
	Name string
	// Concurrency is how many requests are under way at a time; 0 stands for 1.
	Concurrency int
	// Timeout of one request, and of loading the model; 0 stands for DefaultTimeout.
	Timeout time.Duration
	// Tries of a request that is answered by an error to be tried again; 0 stands for
	// DefaultTries. Pause is the first pause between them, and doubles; 0 stands for half a
	// second.
	Tries int
	Pause time.Duration
	// Memory is how many bytes its processes may have resident together; 0 for no bound.
	Memory int64
	// Keep names environment variables that it gets besides the usual ones.
	Keep []string
	// Set are further variables, as NAME=VALUE.
	Set []string
	// Grace is how long it may take to end after its input has; 0 for childprocess.DefaultGrace.
	Grace time.Duration
}

// Defaults of Options.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultTries   = 5
	defaultPause   = 500 * time.Millisecond
	maxPause       = time.Minute
)

// Client asks one command. It may be used from several goroutines.
type Client struct {
	// Description is what the command says of itself.
	Description Description

	options  Options
	child    *childprocess.Process
	talk     *conversation.Talk
	requests atomic.Int64
	unwatch  func() bool
}

// Start starts a command and has it describe itself. The command is killed when ctx ends, and
// else ends with Close.
func Start(ctx context.Context, o Options) (*Client, error) {
	o.Name = cmp.Or(o.Name, strings.Join(o.Command, " "))
	c := &Client{options: o}
	var err error
	command := childprocess.Command{Args: o.Command, Dir: o.Dir, Offline: o.Offline, Write: o.Write, Memory: o.Memory, Keep: o.Keep, Set: o.Set, Grace: o.Grace}
	if c.child, err = command.Start(); err != nil {
		return nil, fmt.Errorf("command %w", err)
	}
	c.unwatch = context.AfterFunc(ctx, func() { c.child.Kill(context.Cause(ctx)) })
	c.talk = conversation.Begin(c.child, spoken)
	if err := c.describe(ctx); err != nil {
		_ = c.Close() // it has been killed
		return nil, err
	}
	return c, nil
}

func (c *Client) describe(ctx context.Context) error {
	var d *Description
	err := c.request(ctx, describe, payload{Versions: []int{Version}}, func(result json.RawMessage) (err error) {
		d, err = decodeDescription(result)
		return err
	})
	if err == nil {
		c.Description = *d
	}
	return err
}

// Requests is how many were sent so far, repeated ones included.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Name stands for the command in messages.
func (c *Client) Name() string { return c.options.Name }

// Close ends the command's input, and whatever of it has not ended soon after. The error says
// how it ended, if that was not as the contract asks; nil if its context ended it.
func (c *Client) Close() error {
	killed := !c.unwatch()
	err := c.child.Close()
	if err == nil || killed {
		return nil
	}
	return c.explain(conversation.WithLastLines(EndsWithItsInput.Broken("%v", err), c.child.LastLines()))
}

// LogLikelihoods scores pairs, and returns an answer for each, in their order. Requests have
// batch pairs each.
func (c *Client) LogLikelihoods(ctx context.Context, pairs []Pair, batch int) ([]Answer, error) {
	if err := c.needs(logLikelihood); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(pairs))
	err := c.inBatches(ctx, len(pairs), batch, func(ctx context.Context, first, end int) error {
		return c.request(ctx, logLikelihood, payload{Pairs: pairs[first:end]}, func(result json.RawMessage) error {
			found, err := decodeAnswers(result, end-first)
			copy(answers[first:], found)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// request asks until the command has answered, or has failed too often. What decode does not
// take ends the command.
func (c *Client) request(ctx context.Context, method string, about payload, decode func(json.RawMessage) error) error {
	tries, pause := cmp.Or(c.options.Tries, DefaultTries), cmp.Or(c.options.Pause, defaultPause)
	for try := 1; ; try++ {
		a, err := c.try(ctx, method, about)
		if err != nil {
			return err
		}
		switch {
		case a.Error == nil:
			if err := decode(a.Result); err != nil {
				c.talk.Fail(err) // unless it has ended by then
				return c.explain(conversation.WithLastLines(err, c.child.LastLines()))
			}
			return nil
		case !a.Error.Retry:
			return c.explain(&RefusedError{method, printable(a.Error.Message)})
		case try == tries:
			return c.explain(fmt.Errorf("it answers %s by the error %q, and so %d times in a row", method, printable(a.Error.Message), tries))
		}
		if err := sleep.For(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

// try asks once.
func (c *Client) try(ctx context.Context, method string, about payload) (*conversation.Answer, error) {
	c.requests.Add(1)
	a, err := c.talk.Ask(ctx, cmp.Or(c.options.Timeout, DefaultTimeout), method, about.describe(method), about)
	if err != nil && ctx.Err() == nil {
		err = c.explain(err)
	}
	return a, err
}

// maxMessage is how much is quoted of an error's message, in characters.
const maxMessage = 300

func printable(message string) string { return childprocess.Printable(message, maxMessage) }

// explain adds to an error whose it is.
func (c *Client) explain(err error) error {
	return fmt.Errorf("command %q: %w", c.options.Name, err)
}

// RefusedError is that of a request which a command answers by an error, and is not to be sent
// again.
type RefusedError struct{ Method, Message string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("it answers %s by the error %q", e.Method, e.Message)
}
