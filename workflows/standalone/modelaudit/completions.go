// These files score sequences of tokens by a model behind an HTTP endpoint in the OpenAI completions form
// with echo and logprobs. Requests have the form of lm-evaluation-harness's local-completions: a list of
// prompts in token ids, one requested token, temperature 0. The server echoes the prompts with their
// log-probabilities; the one generated token is dropped.
//
//	client := modelaudit.CompletionsClient{URL: "http://localhost:8000/v1/completions", Model: "m", Texts: texts}
//	logProbs, err := client.Score(ctx, [][]int32{{2, 17, 5}}, 32)
//	// logProbs[0] has the values of 17 and 5, each after the tokens before it

package modelaudit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/goroutines"
	"coalmine/internal/score"
)

// CompletionsClient is a client of one endpoint. Its fields must not change while it is used. It may be
// used from several goroutines.
type CompletionsClient struct {
	// URL is the URL of the completions with its path, such as http://host/v1/completions.
	URL string
	// Model is the server's name of the model.
	Model string
	// Key is sent as a bearer token, if it is not empty. It appears in no error.
	Key string
	// Texts are the server's texts of the tokens, by id. The tokens in answers must match those of the
	// prompts. An empty text matches any token.
	Texts []string
	// Concurrency is the maximum number of concurrent requests; 0 means 1.
	Concurrency int
	// Timeout is the timeout of one request. 0 means CompletionsTimeout.
	Timeout time.Duration
	// Retries repeats a request if the server is busy or fails, with status 429 or at least 500.
	goroutines.Retries

	requests atomic.Int64
}

const (
	// CompletionsTimeout is the default of Timeout.
	CompletionsTimeout = 5 * time.Minute
	// maxPause bounds the pause that a server may request.
	maxPause = time.Minute
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 256 << 20
	// seed is the seed that the harness sends. At temperature 0 it has no effect.
	seed = 1234
)

// Requests returns the number of requests so far, including repeated ones.
func (c *CompletionsClient) Requests() int64 { return c.requests.Load() }

// CheckURL returns an error for URLs that cannot be requested.
func (c *CompletionsClient) CheckURL() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("endpoint %q: expected a URL such as http://localhost:8000/v1/completions", c.Name())
	}
	return nil
}

// Name returns the URL without its possible secrets: user, password and query.
func (c *CompletionsClient) Name() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "with a URL that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Score returns, for every prompt, the natural logarithms of the probabilities of its tokens except the first, each
// after the tokens before it. Each request has batch prompts. Every prompt must have at least two tokens.
func (c *CompletionsClient) Score(ctx context.Context, prompts [][]int32, batch int) ([][]float64, error) {
	return goroutines.InBatches(ctx, prompts, batch, c.Concurrency, c.request)
}

type request struct {
	Model       string    `json:"model"`
	Prompt      [][]int32 `json:"prompt"`
	Temperature float64   `json:"temperature"`
	MaxTokens   int       `json:"max_tokens"`
	LogProbs    int       `json:"logprobs"`
	Seed        int       `json:"seed"`
	Echo        bool      `json:"echo"`
}

// request repeats a request until the server answers, or has failed too often.
func (c *CompletionsClient) request(ctx context.Context, prompts [][]int32) ([][]float64, error) {
	body, err := json.Marshal(request{Model: c.Model, Prompt: prompts, MaxTokens: 1, LogProbs: 1, Seed: seed, Echo: true})
	if err != nil {
		return nil, err
	}
	var logProbs [][]float64
	err = c.Retry(ctx, func() error {
		answer, err := c.post(ctx, body)
		if err == nil {
			logProbs, err = decode(answer, prompts, c.Texts)
		}
		return err
	}, func(err error) (again bool, least time.Duration) {
		if busy, ok := errors.AsType[*busyError](err); ok {
			return true, busy.pause
		}
		return false, 0
	})
	return logProbs, c.explain(ctx, err)
}

// explain adds the endpoint's name to an error. If ctx is done, it returns the cause instead.
func (c *CompletionsClient) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("endpoint %s: %w", c.Name(), err)
}

// busyError is a retryable error.
type busyError struct {
	message string
	pause   time.Duration // requested by the server
}

func (e *busyError) Error() string { return e.message }

// post sends a request once, and returns the body of its answer.
func (c *CompletionsClient) post(ctx context.Context, body []byte) ([]byte, error) {
	c.requests.Add(1)
	timeout := cmp.Or(c.Timeout, CompletionsTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(limited, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its URL is invalid")
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	answer, status, err := c.exchange(r)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("no answer within %v; raise --timeout, or send fewer sequences per request (--batch)", timeout)
	case err != nil:
		return nil, err
	}
	return answer, status
}

// direct follows no redirection, because the key is only for the endpoint.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// exchange returns the body of an answer, and an error for a status that is not OK.
func (c *CompletionsClient) exchange(r *http.Request) (body []byte, status, err error) {
	response, err := direct.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL
		}
		return nil, nil, &busyError{message: c.redact(err.Error())}
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, nil, &busyError{message: c.redact(fmt.Sprintf("the answer is truncated: %v", err))}
	}
	if len(body) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer has more than %d MiB; send fewer sequences per request", maxAnswer>>20)
	}
	return body, c.status(response, body), nil
}

// status returns an error with the server's message if the status is not OK.
func (c *CompletionsClient) status(r *http.Response, body []byte) error {
	if r.StatusCode == http.StatusOK {
		return nil
	}
	message := fmt.Sprintf("status %d: %q", r.StatusCode, c.redact(messageOf(body)))
	if r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= http.StatusInternalServerError {
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return &busyError{message, min(maxPause, max(0, time.Duration(min(seconds, 3600))*time.Second))}
	}
	return errors.New(message)
}

// redact removes the key from a server's message.
func (c *CompletionsClient) redact(text string) string {
	if c.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, c.Key, "***")
}

// maxMessage bounds the quote of a server's message, in characters.
const maxMessage = 300

// messageOf returns the error message in a body: in OpenAI's form, in the form of frameworks, or the whole text.
func messageOf(body []byte) string {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	text := ""
	if json.Unmarshal(body, &answer) == nil {
		if json.Unmarshal(answer.Error, &inner) != nil {
			_ = json.Unmarshal(answer.Error, &text) // else it stays empty
		}
		text = cmp.Or(inner.Message, text, answer.Message, string(answer.Detail))
	}
	return childprocess.Printable(strings.TrimSpace(cmp.Or(text, string(body))), maxMessage)
}

type response struct {
	Choices []choice `json:"choices"`
	// Error is set if a server reports an error with status 200.
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type choice struct {
	Index    *int `json:"index"`
	LogProbs *struct {
		Tokens []string `json:"tokens"`
		// TokenLogProbs are not decoded, so that errors can quote them.
		TokenLogProbs []json.RawMessage `json:"token_logprobs"`
	} `json:"logprobs"`
}

// decode returns the log-probabilities of the prompts' tokens except the first. It returns an error for an
// answer that does not fit the prompts.
func decode(body []byte, prompts [][]int32, texts []string) ([][]float64, error) {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, unreadable(body, err)
	}
	if r.Error != nil {
		return nil, fmt.Errorf("an error instead of completions: %q", r.Error.Message)
	}
	if len(r.Choices) != len(prompts) {
		return nil, fmt.Errorf("%d completions for %d prompts; the server must accept several prompts per request, or set the batch size to 1", len(r.Choices), len(prompts))
	}
	logProbs := make([][]float64, len(prompts))
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.Index == nil || *c.Index < 0 || *c.Index >= len(prompts) || logProbs[*c.Index] != nil {
			return nil, fmt.Errorf("the index of completion %d is missing or repeated; expected distinct indexes from 0 to %d", i, len(prompts)-1)
		}
		prompt := *c.Index
		var err error
		if logProbs[prompt], err = c.ofPrompt(prompts[prompt], texts); err != nil {
			return nil, err
		}
	}
	return logProbs, nil
}

var (
	errNoLogProbs = errors.New("no log-probabilities of the prompt; an audit needs an endpoint that supports echo together with logprobs")
	errNotFinite  = errors.New("a log-probability that is not finite; the model has diverged, or computes in too few bits")
)

// unreadable explains an answer that cannot be decoded. Some servers write NaN and
// Infinity, which are not JSON.
func unreadable(body []byte, err error) error {
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok && bad.Offset > 0 && bad.Offset <= int64(len(body)) {
		rest := string(body[bad.Offset-1 : min(int64(len(body)), bad.Offset+2)])
		if rest == "NaN" || rest == "Inf" {
			return fmt.Errorf("%w: %q", errNotFinite, body[max(0, bad.Offset-40):min(int64(len(body)), bad.Offset+10)])
		}
	}
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("invalid answer: %s has the JSON type %s; expected %s", cmp.Or(bad.Field, "the answer"), bad.Value, jsonTypes[bad.Type.Kind()])
	}
	return fmt.Errorf("invalid answer: %w", err)
}

// jsonTypes are the JSON types of the fields of a response.
var jsonTypes = map[reflect.Kind]string{reflect.Int: "an integer", reflect.String: "a string", reflect.Slice: "an array", reflect.Struct: "an object"}

// ofPrompt returns the log-probabilities of a prompt's tokens, except the first.
func (c *choice) ofPrompt(prompt []int32, texts []string) ([]float64, error) {
	n := len(prompt)
	switch l := c.LogProbs; {
	case l == nil || len(l.TokenLogProbs) <= 1 && n > 1:
		return nil, errNoLogProbs
	case len(l.TokenLogProbs) < n:
		return nil, fmt.Errorf("%d log-probabilities for a prompt of %d tokens; expected one for each token and one for the generated token", len(l.TokenLogProbs), n)
	case len(l.Tokens) != len(l.TokenLogProbs) || len(l.Tokens) > n+1:
		return nil, fmt.Errorf("%d tokens with %d log-probabilities for a prompt of %d tokens; expected both for each token and for the generated token", len(l.Tokens), len(l.TokenLogProbs), n)
	}
	logProbs := make([]float64, 0, n-1)
	for i, token := range prompt {
		if got := c.LogProbs.Tokens[i]; !isToken(got, token, texts) {
			return nil, fmt.Errorf("different tokens than in the request: %q instead of %d, token %d (%s) of a prompt; is this the model's vocabulary, or does the server prepend a token?", got, i+1, token, textOf(token, texts))
		}
		if i == 0 {
			continue // no token is before it
		}
		p, err := logProbability(c.LogProbs.TokenLogProbs[i])
		if err != nil {
			return nil, fmt.Errorf("token_logprobs, token %d of a prompt of %d: %w", i+1, n, err)
		}
		logProbs = append(logProbs, p)
	}
	return logProbs, nil
}

// logProbability decodes an element of token_logprobs.
func logProbability(value json.RawMessage) (float64, error) {
	p, err := strconv.ParseFloat(string(value), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s: %w", value, errNotFinite)
	case err != nil || !score.IsLogProbability(p):
		return 0, fmt.Errorf("%s; expected the natural logarithm of a probability, a number from -%g to 0", childprocess.Printable(strings.Join(strings.Fields(string(value)), " "), maxMessage), score.MaxLoss)
	}
	return min(p, 0), nil // models that compute in 16 bits round up
}

// isToken reports whether a text is the server's name of a token: its text or, on some servers, its id.
func isToken(got string, token int32, texts []string) bool {
	want := textOf(token, texts)
	return want == "" || got == want || got == fmt.Sprintf("token_id:%d", token)
}

func textOf(token int32, texts []string) string {
	if int(token) >= len(texts) || token < 0 {
		return ""
	}
	return texts[token]
}
