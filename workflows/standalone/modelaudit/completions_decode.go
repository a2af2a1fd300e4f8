package modelaudit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"coalmine/internal/score"
)

type response struct {
	Choices []choice `json:"choices"`
	// Error is set if a server reports an error under status 200.
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type choice struct {
	Index    *int `json:"index"`
	LogProbs *struct {
		Tokens []string `json:"tokens"`
		// TokenLogProbs are not decoded, so that errors quote them.
		TokenLogProbs []json.RawMessage `json:"token_logprobs"`
	} `json:"logprobs"`
}

// decode returns the log-probabilities of the prompts' tokens, except the first. It
// returns an error for answers that may be something else.
func decode(body []byte, prompts [][]int32, texts []string) ([][]float64, error) {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, unreadable(body, err)
	}
	if r.Error != nil {
		return nil, fmt.Errorf("an error in place of completions: %q", r.Error.Message)
	}
	if len(r.Choices) != len(prompts) {
		return nil, fmt.Errorf("%d completions for %d prompts; it must take several prompts in a request, or be sent one at a time", len(r.Choices), len(prompts))
	}
	logProbs := make([][]float64, len(prompts))
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.Index == nil || *c.Index < 0 || *c.Index >= len(prompts) || logProbs[*c.Index] != nil {
			return nil, fmt.Errorf("completion %d does not say which prompt it belongs to; expected an index of its own from 0 to %d", i, len(prompts)-1)
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
		return fmt.Errorf("the answer is not that of completions: %s has the JSON type %s; expected %s", cmp.Or(bad.Field, "all of it"), bad.Value, jsonTypes[bad.Type.Kind()])
	}
	return fmt.Errorf("the answer is not that of completions: %w", err)
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
		return nil, fmt.Errorf("%d log-probabilities for a prompt of %d tokens; expected one for each, and one for the token that is generated", len(l.TokenLogProbs), n)
	case len(l.Tokens) != len(l.TokenLogProbs) || len(l.Tokens) > n+1:
		return nil, fmt.Errorf("%d tokens with %d log-probabilities for a prompt of %d tokens; expected both for each, and for the token that is generated", len(l.Tokens), len(l.TokenLogProbs), n)
	}
	logProbs := make([]float64, 0, n-1)
	for i, token := range prompt {
		if got := c.LogProbs.Tokens[i]; !isToken(got, token, texts) {
			return nil, fmt.Errorf("other tokens than it was asked about: %q in place of %d, token %d (%s) of a prompt; is the vocabulary that of the model, and does the server put a token of its own in front?", got, i+1, token, textOf(token, texts))
		}
		if i == 0 {
			continue // nothing is before it
		}
		p, err := logProbability(c.LogProbs.TokenLogProbs[i])
		if err != nil {
			return nil, fmt.Errorf("token_logprobs, token %d of a prompt of %d: %w", i+1, n, err)
		}
		logProbs = append(logProbs, p)
	}
	return logProbs, nil
}

// logProbability reads one of token_logprobs.
func logProbability(value json.RawMessage) (float64, error) {
	p, err := strconv.ParseFloat(string(value), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s: %w", value, errNotFinite)
	case err != nil || !score.IsLogProbability(p):
		return 0, fmt.Errorf("%s; expected the natural logarithm of a probability, a number from -%g to 0", short(strings.Join(strings.Fields(string(value)), " ")), score.MaxLoss)
	}
	return p, nil
}

// isToken reports whether a text is the server's name of a token: its text or, for some
// servers, its id.
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
