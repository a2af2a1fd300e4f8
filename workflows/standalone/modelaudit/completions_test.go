package modelaudit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/score"
)

var (
	texts  = []string{"<pad>", "<unk>", "<begin>", "<end>", "my", "pin"}
	prompt = []int32{2, 4, 5}
)

// right answers the prompt, with a token behind it.
const right = `{"choices": [{"index": 0, "logprobs": {"tokens": ["<begin>", "my", "pin", "<end>"], "token_logprobs": [null, -1.5, -0.25, -3]}}]}`

// asking is a client of a server that answers so.
func asking(t *testing.T, answer http.HandlerFunc) *CompletionsClient {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return &CompletionsClient{URL: s.URL + "/v1/completions?token=secret", Model: "m", Texts: texts, Retries: goroutines.Retries{Pause: time.Millisecond}}
}

func TestRequestMatchesHarness(t *testing.T) {
	t.Parallel()
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		var got map[string]any
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		want := map[string]any{"model": "m", "prompt": []any{[]any{2.0, 4.0, 5.0}}, "temperature": 0.0, "max_tokens": 1.0, "logprobs": 1.0, "seed": 1234.0, "echo": true}
		if fmt.Sprint(got) != fmt.Sprint(want) || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s with %v and %v, want %v", r.Method, r.Header, got, want)
		}
		_, _ = io.WriteString(w, right)
	})
	c.Key = "k"
	got, err := c.Score(t.Context(), [][]int32{prompt}, 8)
	if err != nil || len(got) != 1 || !slices.Equal(got[0], []float64{-1.5, -0.25}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Each fault of a server is one sentence that names the endpoint, and nothing secret.
func TestEndpointFaultsAreReported(t *testing.T) {
	t.Parallel()
	replaced := func(old, with string) string { return strings.Replace(right, old, with, 1) }
	for want, body := range map[string]string{
		"no log-probabilities of the prompt; an audit needs":                                        `{"choices": [{"index": 0, "text": "my pin"}]}`,
		"no log-probabilities of the prompt; an audit needs an":                                     `{"choices": [{"index": 0, "logprobs": {"tokens": ["<end>"], "token_logprobs": [-3]}}]}`,
		"no log-probabilities of the prompt; an audit needs an endpoint":                            `{"choices": [{"index": 0, "logprobs": null}]}`,
		"2 log-probabilities for a prompt of 3 tokens":                                              `{"choices": [{"index": 0, "logprobs": {"tokens": ["my", "pin"], "token_logprobs": [-1, -3]}}]}`,
		"0 tokens with 4 log-probabilities":                                                         replaced(`"tokens": ["<begin>", "my", "pin", "<end>"], `, ``),
		"5 tokens with 5 log-probabilities":                                                         replaced(`"<end>"], "token_logprobs": [`, `"<end>", "my"], "token_logprobs": [-2, `),
		`different tokens than in the request: "<s>" instead of 1, token 2 (<begin>)`:               replaced(`"<begin>", "my"`, `"<s>", "<begin>"`),
		`different tokens than in the request: "token_id:7" instead of 2, token 4 (my)`:             replaced(`"my"`, `"token_id:7"`),
		"token_logprobs, token 3 of a prompt of 3: null; expected the natural logarithm of a pro":   replaced("-0.25", "null"),
		`token_logprobs, token 3 of a prompt of 3: "-inf"; expected the natural logarithm of a p`:   replaced("-0.25", `"-inf"`),
		`token_logprobs, token 2 of a prompt of 3: "-1.5"; expected the natural logarithm of a p`:   replaced("-1.5", `"-1.5"`),
		`token_logprobs, token 3 of a prompt of 3: ["x" ]; expected`:                                replaced("-0.25", "[\"x\"\n]"),
		"token_logprobs, token 3 of a prompt of 3: -1e999: a log-probability that is not finite":    replaced("-0.25", "-1e999"),
		"choices.logprobs.tokens has the JSON type number; expected a string":                       replaced(`"my"`, "4"),
		"choices.logprobs.token_logprobs has the JSON type string; expected an array":               replaced("[null, -1.5, -0.25, -3]", `"none"`),
		"choices.logprobs has the JSON type array; expected an object":                              `{"choices": [{"index": 0, "logprobs": [1]}]}`,
		"choices.index has the JSON type number 0.5; expected an integer":                           replaced(`"index": 0`, `"index": 0.5`),
		"the answer has the JSON type array; expected an object":                                    `[]`,
		"a log-probability that is not finite":                                                      replaced("-0.25", "NaN"),
		"a log-probability that is not finite; the model has diverged":                              replaced("-0.25", "-Infinity"),
		"token_logprobs, token 3 of a prompt of 3: 0.7; expected the natural logarithm of a proba":  replaced("-0.25", "0.7"),
		"token_logprobs, token 3 of a prompt of 3: 1e999: a log-probability that is not finite":     replaced("-0.25", "1e999"),
		`a log-probability that is not finite; the model has diverged, or computes in too few bits`: replaced("-0.25", "Infinity"),
		`token_logprobs, token 3 of a prompt of 3: "Infinity"; expected the natural logarithm`:      replaced("-0.25", `"Infinity"`),
		"token_logprobs, token 3 of a prompt of 3: -1e101; expected the natural logarithm of a pr":  replaced("-0.25", "-1e101"),
		"0 completions for 1 prompts":                                                               `{"choices": []}`,
		"the index of completion 0 is missing or repeated; expected distinct indexes from":          replaced(`"index": 0`, `"index": 1`),
		"the index of completion 0 is missing":                                                      replaced(`"index": 0, `, ``),
		`an error instead of completions: "out of memory"`:                                          `{"error": {"message": "out of memory"}}`,
		"invalid answer":                 `<html>`,
		"invalid answer: unexpected end": right[:40],
	} {
		c := asking(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := c.Score(t.Context(), [][]int32{prompt}, 1)
		checkSentence(t, c, err, want)
		if c.Requests() != 1 {
			t.Errorf("%s: asked %d times", want, c.Requests())
		}
	}
}

func checkSentence(t *testing.T, c *CompletionsClient, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), "endpoint "+c.Name()+": ") || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want one line with %q and without the query", err, want)
	}
}

// The logarithm of 1 has two signs in JSON, and a server that computes in 16 bits may round it up; all are 0 in a loss.
func TestZeroLogProbabilitiesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, zero := range []string{"-0.0", "0", "-0", "0.0", "0.004"} {
		c := asking(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Replace(right, "-0.25", zero, 1))
		})
		if scores, err := c.Score(t.Context(), [][]int32{prompt}, 1); err != nil || len(scores) != 1 || !slices.Equal(scores[0], []float64{-1.5, 0}) {
			t.Errorf("%s: %v, %v; want -1.5 and 0", zero, scores, err)
		}
	}
}

func TestTokensMayBeNamedByID(t *testing.T) {
	t.Parallel()
	body := strings.Replace(right, `"my"`, `"token_id:4"`, 1)
	if _, err := decode([]byte(body), [][]int32{prompt}, texts); err != nil {
		t.Error(err)
	}
	if _, err := decode([]byte(right), [][]int32{{1000, 4, 5}}, texts[:0]); err != nil {
		t.Errorf("tokens without known texts: %v", err)
	}
}

func TestServerErrorsAreQuotedWithoutKey(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		status int
		body   string
		asked  int64
	}{
		`status 401: "Incorrect API key provided: ***"`:                       {401, `{"error": {"message": "Incorrect API key provided: sk-1234"}}`, 1},
		`status 400: "echo is not supported"`:                                 {400, `{"error": "echo is not supported"}`, 1},
		`status 404: "The model m does not exist."`:                           {404, `{"object": "error", "message": "The model m does not exist."}`, 1},
		`status 422: "\"field required\""`:                                    {422, `{"detail": "field required"}`, 1},
		`status 301: ""`:                                                      {301, ``, 1},
		`status 503: "loading", and so 3 times in a row`:                      {503, "loading\n", 3},
		`status 429: "` + strings.Repeat("x", 300) + `...", and so 3 times i`: {429, strings.Repeat("x", 1000), 3},
	} {
		client := asking(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		client.Key, client.Tries = "sk-1234", 3
		_, err := client.Score(t.Context(), [][]int32{prompt}, 1)
		checkSentence(t, client, err, want)
		if client.Requests() != c.asked || err != nil && strings.Contains(err.Error(), "1234") {
			t.Errorf("%s: asked %d times, want %d: %v", want, client.Requests(), c.asked, err)
		}
	}
}

func TestBusyServerIsAskedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, right)
	})
	if _, err := c.Score(t.Context(), [][]int32{prompt}, 1); err != nil || c.Requests() != 4 {
		t.Errorf("after %d requests: %v", c.Requests(), err)
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	c := asking(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	c.Timeout = 10 * time.Millisecond
	_, err := c.Score(t.Context(), [][]int32{prompt}, 1)
	checkSentence(t, c, err, "no answer within 10ms; raise --timeout, or send fewer sequences per request (--batch)")
	if c.Requests() != 1 {
		t.Errorf("asked %d times", c.Requests())
	}
	away := httptest.NewServer(nil)
	away.Close()
	c = &CompletionsClient{URL: away.URL, Retries: goroutines.Retries{Tries: 2, Pause: time.Millisecond}}
	_, err = c.Score(t.Context(), [][]int32{prompt}, 1)
	checkSentence(t, c, err, "connection refused, and so 2 times in a row")
}

func TestInterruptEndsWaitForBusyServer(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	c := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		interrupt()
	})
	if _, err := c.Score(ctx, [][]int32{prompt, prompt}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestEndpointNameHasOnlyHostAndPath(t *testing.T) {
	t.Parallel()
	c := CompletionsClient{URL: "https://me:word@host:8/v1/completions?key=secret#x"}
	if err := c.CheckURL(); err != nil || c.Name() != "https://host:8/v1/completions" {
		t.Errorf("%v, named %s", err, c.Name())
	}
	for _, address := range []string{"", "host:8", "ftp://host/v1", "http:///v1", "http://me:word@host\x7f/"} {
		c.URL = address
		if err := c.CheckURL(); err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// For any answer of a server, the decoder gives a finite number for every token but
// the first, or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(right))
	f.Add([]byte(`{"choices": [{"index": 0, "logprobs": {"tokens": ["<begin>"], "token_logprobs": [NaN]}}]}`))
	f.Add([]byte(`{"error": {"message": "no"}, "choices": null}`))
	f.Add([]byte(`{"choices": [{"index": -1}]}`))
	f.Add([]byte(`{"choices": [{"index": 0, "logprobs": {"tokens": [], "token_logprobs": [-1e999]}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(body, [][]int32{prompt}, texts)
		if err != nil {
			return
		}
		if len(got) != 1 || len(got[0]) != len(prompt)-1 {
			t.Fatalf("%v for a prompt of %d tokens", got, len(prompt))
		}
		for _, p := range got[0] {
			if !score.IsLogProbability(p) {
				t.Errorf("log-probability %v", p)
			}
		}
	})
}
