package score

import (
	"encoding/json"
	"fmt"
	"slices"

	"coalmine/internal/conversation"
)

// Methods of the contract.
const (
	describe      = "describe"
	logLikelihood = "loglikelihood"
	TokenLogProbs = "token_logprobs"
	GenerateUntil = "generate_until"
	Classify      = "classify"
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

// payload is what a method is about.
type payload struct {
	Versions  []int    `json:"versions,omitempty"`
	Pairs     []Pair   `json:"pairs,omitempty"`
	Images    *images  `json:"images,omitempty"`
	Prompts   []string `json:"prompts,omitempty"`
	Until     []string `json:"until,omitempty"`
	MaxTokens int      `json:"max_tokens,omitempty"`
}

// describe says in messages how much is asked.
func (p *payload) describe(method string) string {
	n := len(p.Pairs) + len(p.Prompts)
	if p.Images != nil {
		n = p.Images.Shape[0]
	}
	if n > 0 {
		return fmt.Sprintf("%s, %d of them", method, n)
	}
	return method
}

// Bounds of a command's description of itself.
const (
	maxName       = 1000 // bytes
	maxMethods    = 100
	maxMethodName = 100 // bytes
)

// decodeDescription checks what a command says of itself.
func decodeDescription(result json.RawMessage) (*Description, error) {
	var d Description
	if err := json.Unmarshal(result, &d); err != nil {
		return nil, DescribeFirst.Broken("it describes itself by %s: %v", conversation.Quote(result), err)
	}
	switch {
	case d.Contract != Contract || d.Version != Version:
		return nil, DescribeFirst.Broken("it speaks version %d of the contract %.100q; expected version %d of %q", d.Version, d.Contract, Version, Contract)
	case d.Model == "":
		return nil, DescribeFirst.Broken("it does not name its model; expected a text that another model does not have, such as a digest of its file")
	case len(d.Model) > maxName:
		return nil, DescribeFirst.Broken("it names its model by %d bytes, %s ...; expected at most %d", len(d.Model), conversation.Quote([]byte(d.Model[:100])), maxName)
	case len(d.Methods) > maxMethods:
		return nil, DescribeFirst.Broken("it has %d methods; expected at most %d", len(d.Methods), maxMethods)
	case slices.ContainsFunc(d.Methods, func(name string) bool { return len(name) > maxMethodName }):
		return nil, DescribeFirst.Broken("a method has a name of more than %d bytes, as in %s", maxMethodName, conversation.Quote(result))
	case d.LongestInput < 0:
		return nil, DescribeFirst.Broken("its longest_input is %d; expected the number of tokens, or 0 where there is no bound", d.LongestInput)
	case !d.Has(logLikelihood) && !d.Has(Classify):
		return nil, DescribeFirst.Broken("its methods are %q; expected %q among them, or %q of a model of images", d.Methods, logLikelihood, Classify)
	}
	return &d, nil
}

// decodeAnswers checks the answers to so many pairs.
func decodeAnswers(result json.RawMessage, pairs int) ([]Answer, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, InTheirOrder.Broken("it answered %s: %v", conversation.Quote(result), err)
	}
	if len(list) != pairs {
		return nil, InTheirOrder.Broken("it gave %d answers to %d pairs; expected one for each", len(list), pairs)
	}
	answers := make([]Answer, pairs)
	for i, two := range list {
		if len(two) != 2 || json.Unmarshal(two[1], &answers[i].Greedy) != nil || string(two[1]) == "null" {
			return nil, InTheirOrder.Broken("its answer to pair %d is %s; expected a list such as [-12.5, false]", i+1, conversation.Quote(result))
		}
		var err error
		if answers[i].LogProb, err = decodeLogProb(two[0]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// MaxLogProbability is the largest logarithm of a probability that is taken for one: models that
// compute in 16 bits round.
const MaxLogProbability = 0.01

// MaxLoss is the largest accepted -log p, in nats: far above the losses of models, and so small that sums
// of many are finite.
const MaxLoss = 1e100

// IsLogProbability reports whether a number may be the natural logarithm of a probability.
func IsLogProbability(p float64) bool { return -MaxLoss <= p && p <= MaxLogProbability }

// LogProbability is a logarithm of a probability as JSON has it: a number, or the text "-inf" or
// "-Infinity", since JSON has no number for the logarithm of 0. That one is read as -MaxLoss, so
// that ranks and sums stay what they are.
type LogProbability float64

// UnmarshalJSON implements json.Unmarshaler.
func (l *LogProbability) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"-inf"`, `"-Infinity"`:
		*l = -MaxLoss
		return nil
	}
	var p *float64
	if err := json.Unmarshal(text, &p); err != nil || p == nil {
		return fmt.Errorf("%s stands for a log-probability; expected a finite number, or %q for the logarithm of 0", conversation.Quote(text), "-inf")
	}
	if !IsLogProbability(*p) {
		return fmt.Errorf("%g stands for a log-probability; expected a natural logarithm, which is not above 0 nor below -%g", *p, MaxLoss)
	}
	*l = LogProbability(min(*p, 0))
	return nil
}

func decodeLogProb(text json.RawMessage) (float64, error) {
	var p LogProbability
	if err := p.UnmarshalJSON(text); err != nil {
		return 0, FiniteLogarithms.Broken("%v", err)
	}
	return float64(p), nil
}

// decodeTokens checks the log-probabilities of the tokens of so many continuations.
func decodeTokens(result json.RawMessage, pairs int) ([][]float64, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, TokensAddUp.Broken("it answered %s: %v", conversation.Quote(result), err)
	}
	if len(list) != pairs {
		return nil, TokensAddUp.Broken("it gave %d answers to %d pairs; expected one for each", len(list), pairs)
	}
	// maxTokens bounds the tokens of a continuation.
	const maxTokens = 1 << 20
	tokens := make([][]float64, pairs)
	for i, of := range list {
		if len(of) > maxTokens {
			return nil, TokensAddUp.Broken("its answer to pair %d has %d tokens; expected at most %d", i+1, len(of), maxTokens)
		}
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
		return nil, GreedyText.Broken("it answered %s: %v", conversation.Quote(result), err)
	}
	if len(texts) != prompts {
		return nil, GreedyText.Broken("it gave %d texts for %d prompts; expected one for each", len(texts), prompts)
	}
	return texts, nil
}
