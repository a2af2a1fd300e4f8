package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/tasks/audits"
)

// Methods of the contract.
const (
	describe      = "describe"
	logLikelihood = "loglikelihood"
	TokenLogProbs = "token_logprobs"
	GenerateUntil = "generate_until"
)

// Pair is a text and how it goes on. A space between them belongs to the continuation, which
// is not empty.
type Pair struct{ Context, Continuation string }

// MarshalJSON writes a list of two.
func (p Pair) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{p.Context, p.Continuation})
}

// Answer is what a model says of a pair.
type Answer struct {
	// LogProb is the natural logarithm of the probability of the continuation after the
	// context, at most 0.
	LogProb float64
	// Greedy says that each token of the continuation is the most probable one.
	Greedy bool
}

// Description is what a command says of itself.
type Description struct {
	Contract string `json:"contract"`
	Version  int    `json:"version"`
	// Model names the model so that another has another name: a digest of its file, say.
	Model string `json:"model"`
	// LongestInput is how many tokens a context and its continuation may have together; 0 if
	// there is no such number.
	LongestInput int `json:"longest_input"`
	// Deterministic says that equal requests have equal answers.
	Deterministic bool `json:"deterministic"`
	// Methods are those that it has beside describe.
	Methods []string `json:"methods"`
}

// Has says whether the command has a method.
func (d *Description) Has(method string) bool { return slices.Contains(d.Methods, method) }

// request is a line that is sent.
type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	payload
}

// payload is what a method is about.
type payload struct {
	Versions  []int    `json:"versions,omitempty"`
	Pairs     []Pair   `json:"pairs,omitempty"`
	Prompts   []string `json:"prompts,omitempty"`
	Until     []string `json:"until,omitempty"`
	MaxTokens int      `json:"max_tokens,omitempty"`
}

// answer is a line that is received.
type answer struct {
	ID     *int64          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
		Retry   bool   `json:"retry"`
	} `json:"error"`
}

// quoted is how much is quoted of what a command says, in characters.
const quoted = 120

func quote(text []byte) string {
	return fmt.Sprintf("%q", childprocess.Printable(string(text[:min(len(text), 4*quoted)]), quoted))
}

// parse reads a line of a command.
func parse(line []byte) (*answer, error) {
	if !strings.HasPrefix(strings.TrimSpace(string(line)), "{") {
		return nil, OneObjectALine.broken("it printed %s to standard output; expected answers alone, and all else on standard error", quote(line))
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		if notFinite(line, err) {
			return nil, FiniteLogarithms.broken("it answered with a number that JSON has not, NaN or Infinity: %s; the model has diverged, or computes in too few bits", quote(line))
		}
		return nil, OneObjectALine.broken("it printed %s, which is not a JSON object: %v", quote(line), err)
	}
	switch {
	case a.ID == nil:
		return nil, OneAnswerEach.broken("its answer %s has no id; expected that of a request", quote(line))
	case (a.Result == nil) == (a.Error == nil):
		return nil, OneObjectALine.broken("its answer %s has both or neither of result and error; expected one", quote(line))
	}
	return &a, nil
}

// notFinite says whether a line cannot be decoded because of NaN or Infinity, which some
// writers of JSON write.
func notFinite(line []byte, err error) bool {
	bad, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || bad.Offset < 1 || bad.Offset > int64(len(line)) {
		return false
	}
	rest := string(line[bad.Offset-1:])
	return strings.HasPrefix(rest, "NaN") || strings.HasPrefix(rest, "Infinity")
}

// decodeDescription checks what a command says of itself.
func decodeDescription(result json.RawMessage) (*Description, error) {
	var d Description
	if err := json.Unmarshal(result, &d); err != nil {
		return nil, DescribeFirst.broken("it describes itself by %s: %v", quote(result), err)
	}
	switch {
	case d.Contract != Contract || d.Version != Version:
		return nil, DescribeFirst.broken("it speaks version %d of the contract %q; expected version %d of %q", d.Version, d.Contract, Version, Contract)
	case d.Model == "":
		return nil, DescribeFirst.broken("it does not name its model; expected a text that another model does not have, such as a digest of its file")
	case d.LongestInput < 0:
		return nil, DescribeFirst.broken("its longest_input is %d; expected the number of tokens, or 0 where there is no bound", d.LongestInput)
	case !d.Has(logLikelihood):
		return nil, DescribeFirst.broken("its methods are %q; expected %q among them", d.Methods, logLikelihood)
	}
	return &d, nil
}

// decodeAnswers checks the answers to so many pairs.
func decodeAnswers(result json.RawMessage, pairs int) ([]Answer, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, InTheirOrder.broken("it answered %s: %v", quote(result), err)
	}
	if len(list) != pairs {
		return nil, InTheirOrder.broken("it gave %d answers to %d pairs; expected one for each", len(list), pairs)
	}
	answers := make([]Answer, pairs)
	for i, two := range list {
		if len(two) != 2 || json.Unmarshal(two[1], &answers[i].Greedy) != nil || string(two[1]) == "null" {
			return nil, InTheirOrder.broken("its answer to pair %d is %s; expected a list such as [-12.5, false]", i+1, quote(result))
		}
		var err error
		if answers[i].LogProb, err = decodeLogProb(two[0]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func decodeLogProb(text json.RawMessage) (float64, error) {
	var p *float64
	if err := json.Unmarshal(text, &p); err != nil || p == nil || math.IsInf(*p, 0) {
		return 0, FiniteLogarithms.broken("%s stands for a log-probability; expected a finite number", quote(text))
	}
	if *p > audits.MaxLogProbability {
		return 0, FiniteLogarithms.broken("%g stands for a log-probability; expected a natural logarithm, which is not above 0", *p)
	}
	return min(*p, 0), nil
}

// decodeTokens checks the log-probabilities of the tokens of so many continuations.
func decodeTokens(result json.RawMessage, pairs int) ([][]float64, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, TokensAddUp.broken("it answered %s: %v", quote(result), err)
	}
	if len(list) != pairs {
		return nil, TokensAddUp.broken("it gave %d answers to %d pairs; expected one for each", len(list), pairs)
	}
	tokens := make([][]float64, pairs)
	for i, of := range list {
		for _, text := range of {
			p, err := decodeLogProb(text)
			if err != nil {
				return nil, err
			}
			tokens[i] = append(tokens[i], p)
		}
	}
	return tokens, nil
}

// decodeTexts checks what so many prompts go on with.
func decodeTexts(result json.RawMessage, prompts int) ([]string, error) {
	var texts []string
	if err := json.Unmarshal(result, &texts); err != nil {
		return nil, GreedyText.broken("it answered %s: %v", quote(result), err)
	}
	if len(texts) != prompts {
		return nil, GreedyText.broken("it gave %d texts for %d prompts; expected one for each", len(texts), prompts)
	}
	return texts, nil
}
