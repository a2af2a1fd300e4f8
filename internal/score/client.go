// Package score scores texts with an external model, through a command that implements the contract
// "score", docs/contracts/score.md: requests and answers are JSON objects, one a line, on its standard
// input and output.
//
//	client, err := score.Start(ctx, score.Options{Command: childprocess.Command{Args: []string{"python3", "scorer.py"}}})
//	...
//	defer client.Close()
//	answers, err := client.LogLikelihoods(ctx, []score.Pair{{"my pin is", " 1234"}}, 32)
//	// answers[0].LogProb is the log-probability of " 1234" after "my pin is"
//
// Check reports the faults of an implementation.
package score

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/goroutines"
)

// Options select a command and control its requests.
type Options struct {
	childprocess.Command
	// Name stands for the command in messages; "" for its arguments.
	Name string
	// Concurrency is the maximum number of concurrent requests; 0 stands for 1.
	Concurrency int
	// Retries repeats a request whose answer is an error that permits it.
	goroutines.Retries
}

// Client sends requests to one command. It is safe for concurrent use.
type Client struct {
	// Description is the command's answer to describe.
	Description Description

	options      Options
	conversation *contracts.Conversation
}

// Start starts a command and requests its description. The command is killed when ctx ends, and otherwise
// ends with Close.
func Start(ctx context.Context, o Options) (*Client, error) {
	o.Name = cmp.Or(o.Name, strings.Join(o.Args, " "))
	conversation, err := contracts.Start(ctx, &o.Command, protocol(o.Name))
	if err != nil {
		return nil, err
	}
	c := &Client{options: o, conversation: conversation}
	err = c.request(ctx, describe, payload{Versions: []int{contract.Version}}, func(result json.RawMessage) error {
		d, err := decodeDescription(result)
		if err == nil {
			c.Description = *d
		}
		return err
	})
	if err != nil {
		_ = c.Close() // it has been killed
		return nil, err
	}
	return c, nil
}

// Requests counts the requests so far, repeated ones included.
func (c *Client) Requests() int64 { return c.conversation.Requests() }

// Name stands for the command in messages.
func (c *Client) Name() string { return c.options.Name }

// Close ends the command's input, and the command if it does not end soon after. The error reports an end
// that breaks the contract; nil if its context ended it.
func (c *Client) Close() error { return c.conversation.Close() }

// LogLikelihoods scores pairs, and returns an answer for each, in order. Each request has up to batch
// pairs.
func (c *Client) LogLikelihoods(ctx context.Context, pairs []Pair, batch int) ([]Answer, error) {
	return inBatches(ctx, c, logLikelihood, pairs, batch, func(some []Pair) payload { return payload{Pairs: some} },
		func(result json.RawMessage, n int) ([]Answer, error) {
			return DecodeAnswers(result, n, InTheirOrder, FiniteLogarithms)
		})
}

// TokenLogProbs scores the tokens of continuations; each must have at least one. The command must support
// this method.
func (c *Client) TokenLogProbs(ctx context.Context, pairs []Pair, batch int) ([][]float64, error) {
	return inBatches(ctx, c, TokenLogProbs, pairs, batch, func(some []Pair) payload { return payload{Pairs: some} },
		func(result json.RawMessage, n int) ([][]float64, error) {
			tokens, err := decodeTokens(result, n)
			for i, logProbs := range tokens {
				if len(logProbs) == 0 {
					return nil, TokensAddUp.Errorf("pair %d has no tokens; expected one at least", i+1)
				}
			}
			return tokens, err
		})
}

// inBatches calls a method with a list in batches, and returns the answers in the order of the list.
func inBatches[A, R any](ctx context.Context, c *Client, method string, list []A, batch int, about func([]A) payload, decode func(result json.RawMessage, n int) ([]R, error)) ([]R, error) {
	if !c.Description.Has(method) {
		return nil, c.conversation.Explain(DescribeFirst.Errorf("its methods are %q; expected %q among them, which is asked here", c.Description.Methods, method))
	}
	return goroutines.InBatches(ctx, list, batch, c.options.Concurrency, func(ctx context.Context, some []A) (found []R, err error) {
		err = c.request(ctx, method, about(some), func(result json.RawMessage) (err error) {
			found, err = decode(result, len(some))
			return err
		})
		return found, err
	})
}

// request retries until the command has answered, or has failed too often. An answer that decode refuses
// ends the command.
func (c *Client) request(ctx context.Context, method string, about payload, decode func(json.RawMessage) error) error {
	return c.options.Retry(ctx, func() error {
		return c.conversation.Ask(ctx, method, about.describe(method), about, decode)
	}, func(err error) (again bool, least time.Duration) {
		refused, ok := errors.AsType[*contracts.RefusedError](err)
		return ok && refused.Retry, 0
	})
}

// contract holds the rules of docs/contracts/score.md.
var contract = contracts.Contract{Name: "score", Version: 1}

// The rules, in the words and order of the page.
var (
	OneObjectALine   = contract.Rule("Standard output is for answers alone: one JSON object a line, in UTF-8, of at most 64 MiB. Messages for people go to standard error.")
	OneAnswerEach    = contract.Rule("Every request is answered exactly once, by its `id`. Answers may come in any order.")
	DescribeFirst    = contract.Rule("The first request is `describe`. Its result names the contract, its version, the model, its longest input, whether it is deterministic, and its methods.")
	InTheirOrder     = contract.Rule("The result of `loglikelihood` has for every pair, in their order, a list of two: the log-probability of the continuation after the context, and whether it is the greedy one.")
	FiniteLogarithms = contract.Rule("A log-probability is a natural logarithm: a finite number, not above 0; the text `-inf` stands for that of a probability of 0.")
	EmptyContext     = contract.Rule("A context may be empty. The continuation then begins a text.")
	SpacesBelong     = contract.Rule("Spaces between context and continuation belong to the continuation. Both are scored as they are: nothing is stripped, added or changed.")
	NothingIsCut     = contract.Rule("An input longer than `longest_input` is an error. It is never cut.")
	ErrorsAreAnswers = contract.Rule("If a request fails, the answer has an `error` with a `message`, and `retry` true if the same request may succeed later. The command then goes on.")
	UnknownMethods   = contract.Rule("A method that the command does not have is an error.")
	Deterministic    = contract.Rule("A command that is `deterministic` gives equal requests equal answers, to the last bit.")
	EndsWithItsInput = contract.Rule("When standard input ends, the command answers the open requests, ends with exit status 0, and leaves no process behind.")
	TokensAddUp      = contract.Rule("The result of `token_logprobs` has for every pair the log-probabilities of the continuation's tokens. They add up to that of `loglikelihood`.")
	GreedyText       = contract.Rule("The result of `generate_until` has for every prompt the text that greedy decoding gives after it: at most `max_tokens` tokens, up to the first of the texts in `until`, which is left out.")
	ClassesAddUp     = contract.Rule("The result of `classify` has for every image, in their order, a list with the log-probability of each class, from class 0 on. Their probabilities add up to 1.")
	AtMostOne        = contract.Rule("After one context the probabilities of continuations of which none begins another add up to at most 1.")
)

// protocol returns the parameters of a conversation with a command.
func protocol(name string) contracts.Protocol {
	return contracts.Protocol{
		Who: "command", Name: name, Patience: DefaultTimeout, MoreTime: contracts.RaiseAnswer,
		OneObjectALine: OneObjectALine, OneAnswerEach: OneAnswerEach, FiniteNumbers: FiniteLogarithms, EndsWithItsInput: EndsWithItsInput,
	}
}

// DefaultTimeout is the time for a request, and for the loading of the model.
const DefaultTimeout = 5 * time.Minute
