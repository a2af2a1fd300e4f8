package servetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/checkpoints"
	"coalmine/workflows/control"
)

// Completions serves one model at /v1/completions.
type Completions struct {
	// URL is the URL of the completions.
	URL string
	// Noise simulates a server that adds in another order in a batch. If a request has several prompts, Noise is
	// subtracted once from every log-probability of the first prompt, twice for the second, and so on.
	Noise float64
	// Before, if not nil, may answer in place of the server. It then returns true.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// Largest is the largest number of prompts in a request so far.
	Largest atomic.Int64

	scorer *models.Scorer
	words  []string
}

// ServeCompletions serves a file of coalmine export until the test ends. Set the fields of the server
// before the first request.
func ServeCompletions(tb testing.TB, model []byte) *Completions {
	tb.Helper()
	decoded := must.Get(checkpoints.Decode(model))(tb)
	s := new(Completions)
	s.words = must.Get(control.ExportedVocabulary(model))(tb)
	s.scorer = must.Get(decoded.NewScorer())(tb)
	listening := httptest.NewServer(s)
	tb.Cleanup(listening.Close)
	s.URL = listening.URL + "/v1/completions"
	return s
}

// completionsRequest has the supported fields. The server refuses other fields, and values that audits do not use.
type completionsRequest struct {
	Model       string    `json:"model"`
	Prompt      [][]int32 `json:"prompt"`
	Temperature *float64  `json:"temperature"`
	MaxTokens   int       `json:"max_tokens"`
	LogProbs    int       `json:"logprobs"`
	Seed        int       `json:"seed"`
	Echo        bool      `json:"echo"`
}

// choice is one completion.
type choice struct {
	Index    int      `json:"index"`
	LogProbs logProbs `json:"logprobs"`
}

type logProbs struct {
	Tokens        []string   `json:"tokens"`
	TokenLogProbs []*float64 `json:"token_logprobs"`
	// TopLogProbs holds the most probable token of each place, or nil if TokenLogProbs is nil there.
	// lm-eval uses it to find out whether a continuation is greedy.
	TopLogProbs []map[string]float64 `json:"top_logprobs"`
}

func (s *Completions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Before != nil && s.Before(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	choices, err := s.complete(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": err.Error()}})
		return
	}
	slices.Reverse(choices) // answers may come in any order
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "text_completion", "choices": choices})
}

func (s *Completions) complete(r *http.Request) ([]choice, error) {
	var asked completionsRequest
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	if err := body.Decode(&asked); err != nil {
		return nil, err
	}
	if asked.Temperature == nil || *asked.Temperature != 0 || asked.MaxTokens != 1 || asked.LogProbs < 1 || !asked.Echo || len(asked.Prompt) == 0 || r.URL.Path != "/v1/completions" {
		return nil, fmt.Errorf("%s with %+v is no request for log-probabilities", r.URL.Path, asked)
	}
	for before := s.Largest.Load(); before < int64(len(asked.Prompt)) && !s.Largest.CompareAndSwap(before, int64(len(asked.Prompt))); {
		before = s.Largest.Load()
	}
	choices := make([]choice, len(asked.Prompt))
	for i, prompt := range asked.Prompt {
		scored, err := s.score(prompt)
		if err != nil {
			return nil, err
		}
		choices[i] = choice{i, *scored}
		if len(asked.Prompt) > 1 {
			scored.disturb(s.Noise * float64(i+1))
		}
	}
	return choices, nil
}

// score echoes a prompt, followed by the most probable next token.
func (s *Completions) score(prompt []int32) (*logProbs, error) {
	if len(prompt) == 0 {
		return nil, errors.New("a prompt without tokens")
	}
	states, row := s.scorer.Start(1), make([]float32, len(s.words))
	out := new(logProbs)
	for i, token := range prompt {
		if token < 0 || int(token) >= len(s.words) {
			return nil, fmt.Errorf("no token %d", token)
		}
		out.add(s.words[token], i > 0, row[token])
		out.top(s.words, i > 0, row)
		if err := errors.Join(s.scorer.Step(states, []int32{token}), s.scorer.LogProbRows(states, row)); err != nil {
			return nil, err
		}
	}
	best := slices.Max(row)
	out.add(s.words[slices.Index(row, best)], true, best)
	out.top(s.words, true, row)
	return out, nil
}

// top adds the most probable token of a place, the first of equals.
func (l *logProbs) top(words []string, known bool, row []float32) {
	if !known {
		l.TopLogProbs = append(l.TopLogProbs, nil)
		return
	}
	best := slices.Max(row)
	l.TopLogProbs = append(l.TopLogProbs, map[string]float64{words[slices.Index(row, best)]: float64(best)})
}

func (l *logProbs) add(text string, known bool, logProb float32) {
	l.Tokens = append(l.Tokens, text)
	if !known {
		l.TokenLogProbs = append(l.TokenLogProbs, nil)
		return
	}
	l.TokenLogProbs = append(l.TokenLogProbs, new(float64(logProb)))
}

func (l *logProbs) disturb(noise float64) {
	for _, p := range l.TokenLogProbs {
		if p != nil {
			*p -= noise
		}
	}
	for _, top := range l.TopLogProbs {
		for word := range top {
			top[word] -= noise
		}
	}
}
