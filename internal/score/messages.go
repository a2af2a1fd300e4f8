package score

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/contracts"
)

// Methods of the contract.
const (
	describe      = "describe"
	logLikelihood = "loglikelihood"
	TokenLogProbs = "token_logprobs"
	GenerateUntil = "generate_until"
	Classify      = "classify"
)

// Pair is a text and its continuation, which is not empty. A space between them belongs to the
// continuation.
type Pair struct{ Context, Continuation string }

// MarshalJSON writes a list of two.
func (p Pair) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{p.Context, p.Continuation})
}

// Answer is a model's answer for a pair.
type Answer struct {
	// LogProb is the natural logarithm of the probability of the continuation after the
	// context, at most 0.
	LogProb float64
	// Greedy reports whether each token of the continuation is the most probable one.
	Greedy bool
}

// Description is a command's description of itself.
type Description struct {
	contracts.Identity
	// Model identifies the model, so that different models differ: for example a digest of its file.
	Model string `json:"model"`
	// LongestInput is the maximum number of tokens of a context with its continuation; 0 if unlimited.
	LongestInput int `json:"longest_input"`
	// Deterministic reports whether equal requests have equal answers.
	Deterministic bool `json:"deterministic"`
	// Methods are its methods, except describe.
	Methods []string `json:"methods"`
}

// Has reports whether the command has a method.
func (d *Description) Has(method string) bool { return slices.Contains(d.Methods, method) }

// payload holds a method's parameters.
type payload struct {
	Versions  []int    `json:"versions,omitempty"`
	Pairs     []Pair   `json:"pairs,omitempty"`
	Images    *Images  `json:"images,omitempty"`
	Prompts   []string `json:"prompts,omitempty"`
	Until     []string `json:"until,omitempty"`
	MaxTokens int      `json:"max_tokens,omitempty"`
}

// describe returns the size of the request for messages.
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

// Limits on a command's description.
const (
	maxName       = 1000 // bytes
	maxMethods    = 100
	maxMethodName = 100 // bytes
)

// decodeDescription checks a command's description.
func decodeDescription(result json.RawMessage) (*Description, error) {
	var d Description
	if err := contract.Describes(DescribeFirst, result, &d, &d.Identity); err != nil {
		return nil, err
	}
	switch {
	case d.Model == "":
		return nil, DescribeFirst.Errorf("it does not name its model; expected a text that another model does not have, such as a digest of its file")
	case len(d.Model) > maxName:
		return nil, DescribeFirst.Errorf("it names its model by %d bytes, %s ...; expected at most %d", len(d.Model), contracts.Quote([]byte(d.Model[:100])), maxName)
	case len(d.Methods) > maxMethods:
		return nil, DescribeFirst.Errorf("it has %d methods; expected at most %d", len(d.Methods), maxMethods)
	case slices.ContainsFunc(d.Methods, func(name string) bool { return len(name) > maxMethodName }):
		return nil, DescribeFirst.Errorf("a method has a name of more than %d bytes, as in %s", maxMethodName, contracts.Quote(result))
	case d.LongestInput < 0:
		return nil, DescribeFirst.Errorf("its longest_input is %d; expected the number of tokens, or 0 where there is no bound", d.LongestInput)
	case !d.Has(logLikelihood) && !d.Has(Classify):
		return nil, DescribeFirst.Errorf("its methods are %q; expected %q among them, or %q of a model of images", d.Methods, logLikelihood, Classify)
	}
	return &d, nil
}

// listOf decodes a list with an answer to each of n items; things names them in messages.
func listOf[T any](rule contracts.Rule, result json.RawMessage, n int, things string) (list []T, err error) {
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, rule.Errorf("it answered %s: %v", contracts.Quote(result), err)
	}
	if len(list) != n {
		return nil, rule.Errorf("it gave %d answers to %d %s; expected one for each", len(list), n, things)
	}
	return list, nil
}

// DecodeAnswers decodes the answers to pairs. order and finite are the rules on their order and their
// numbers.
func DecodeAnswers(result json.RawMessage, pairs int, order, finite contracts.Rule) ([]Answer, error) {
	list, err := listOf[[]json.RawMessage](order, result, pairs, "pairs")
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, pairs)
	for i, two := range list {
		var greedy *bool
		if len(two) != 2 || json.Unmarshal(two[1], &greedy) != nil || greedy == nil {
			return nil, order.Errorf("its answer to pair %d is %s; expected a list such as [-12.5, false]", i+1, contracts.Quote(result))
		}
		var p LogProbability
		if err := p.UnmarshalJSON(two[0]); err != nil {
			return nil, finite.Errorf("the log-probability of pair %d: %v", i+1, err)
		}
		answers[i] = Answer{float64(p), *greedy}
	}
	return answers, nil
}

// maxLogProbability is the largest accepted logarithm of a probability: models that compute in 16 bits
// round.
const maxLogProbability = 0.01

// MaxLoss is the largest accepted -log p, in nats: far above the losses of models, and small enough that
// sums of many are finite.
const MaxLoss = 1e100

// IsLogProbability reports whether a number may be the natural logarithm of a probability.
func IsLogProbability(p float64) bool { return -MaxLoss <= p && p <= maxLogProbability }

// LogProbability is the logarithm of a probability in JSON: a number, or the text "-inf" or "-Infinity",
// because JSON has no number for the logarithm of 0. That text decodes to -MaxLoss, so that ranks and
// sums stay finite.
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
		return fmt.Errorf("%s stands for a log-probability; expected a finite number, or %q for the logarithm of 0", contracts.Quote(text), "-inf")
	}
	if !IsLogProbability(*p) {
		return fmt.Errorf("%g stands for a log-probability; expected a natural logarithm, which is not above 0 nor below -%g", *p, MaxLoss)
	}
	*l = LogProbability(min(*p, 0))
	return nil
}

// decodeRow decodes the log-probabilities of item i; thing is its noun in messages.
func decodeRow(texts []json.RawMessage, thing string, i int) ([]float64, error) {
	row := make([]float64, len(texts))
	for k, text := range texts {
		var p LogProbability
		if err := p.UnmarshalJSON(text); err != nil {
			return nil, FiniteLogarithms.Errorf("log-probability %d of %s %d: %v", k+1, thing, i+1, err)
		}
		row[k] = float64(p)
	}
	return row, nil
}

// decodeTokens decodes the log-probabilities of the tokens of continuations.
func decodeTokens(result json.RawMessage, pairs int) ([][]float64, error) {
	list, err := listOf[[]json.RawMessage](TokensAddUp, result, pairs, "pairs")
	if err != nil {
		return nil, err
	}
	// maxTokens bounds the tokens of a continuation.
	const maxTokens = 1 << 20
	tokens := make([][]float64, pairs)
	for i, row := range list {
		if len(row) > maxTokens {
			return nil, TokensAddUp.Errorf("its answer to pair %d has %d tokens; expected at most %d", i+1, len(row), maxTokens)
		}
		if tokens[i], err = decodeRow(row, "pair", i); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// Shape is the shape of images.
type Shape struct{ Height, Width, Channels int }

// Images holds the images of a request.
type Images struct {
	// Shape is [images, height, width, channels].
	Shape [4]int `json:"shape"`
	// Pixels are bytes in that order, the last index innermost; in base64.
	Pixels []byte `json:"pixels"`
}

// ImagesOf combines images of a shape.
func ImagesOf(s Shape, list [][]byte) *Images {
	all := &Images{Shape: [4]int{len(list), s.Height, s.Width, s.Channels}}
	for _, pixels := range list {
		all.Pixels = append(all.Pixels, pixels...)
	}
	return all
}

// Classify returns the log-probabilities of the given number of classes for each image, in order.
// Images are bytes, row by row, channels innermost; each request has up to batch images.
func (c *Client) Classify(ctx context.Context, s Shape, list [][]byte, classes, batch int) ([][]float64, error) {
	return inBatches(ctx, c, Classify, list, batch, func(some [][]byte) payload { return payload{Images: ImagesOf(s, some)} },
		func(result json.RawMessage, n int) ([][]float64, error) { return decodeClasses(result, n, classes) })
}

// sumTolerance is the permitted deviation of the sum of class probabilities from 1: models that compute
// in 16 bits round.
const sumTolerance = 0.01

func decodeClasses(result json.RawMessage, images, classes int) ([][]float64, error) {
	list, err := listOf[[]json.RawMessage](ClassesAddUp, result, images, "images")
	if err != nil {
		return nil, err
	}
	found := make([][]float64, images)
	for i, texts := range list {
		if len(texts) != classes {
			return nil, ClassesAddUp.Errorf("its answer to image %d has %d log-probabilities; expected one for each of %d classes", i+1, len(texts), classes)
		}
		if found[i], err = decodeRow(texts, "image", i); err != nil {
			return nil, err
		}
		sum := 0.0
		for _, p := range found[i] {
			sum += math.Exp(p)
		}
		if math.Abs(sum-1) > sumTolerance {
			return nil, ClassesAddUp.Errorf("the probabilities of image %d add up to %.4g; expected 1", i+1, sum)
		}
	}
	return found, nil
}

// MaxTotal is the largest accepted sum of probabilities of mutually exclusive outcomes: models that
// compute in 16 bits round.
const MaxTotal = 1.05

// Total returns the sum of the probabilities of mutually exclusive outcomes. Outcomes with
// log-probabilities equal up to rounding count once: the model may treat them as the same, such as
// words that it does not know.
func Total(logProbs []float64) (total float64) {
	last := math.Inf(1)
	for _, p := range slices.Backward(slices.Sorted(slices.Values(logProbs))) {
		if math.Abs(last-p) > 1e-4*(1+math.Abs(p)) {
			total, last = total+math.Exp(p), p
		}
	}
	return total
}

// CheckTotal returns an error if the probabilities of continuations of one context, none of which is a
// prefix of another, add up to more than 1.
func CheckTotal(pairs []Pair, answers []Answer) error {
	order := make([]int, len(pairs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(pairs[a].Context, pairs[b].Context), strings.Compare(pairs[a].Continuation, pairs[b].Continuation))
	})
	var logProbs []float64
	for k, i := range order {
		next := Pair{}
		if k+1 < len(order) {
			next = pairs[order[k+1]]
		}
		same := k+1 < len(order) && next.Context == pairs[i].Context
		if !same || !strings.HasPrefix(next.Continuation, pairs[i].Continuation) {
			logProbs = append(logProbs, answers[i].LogProb)
		}
		if same {
			continue
		}
		if total := Total(logProbs); total > MaxTotal {
			return AtMostOne.Errorf("%d continuations of %.80q that exclude each other have probabilities that add up to %.4g; expected at most 1 "+
				"(answers must be natural logarithms of probabilities, not logits, logarithms to base 10 or means over tokens)", len(logProbs), pairs[i].Context, total)
		}
		logProbs = nil
	}
	return nil
}

// After returns the pairs of one context with each of several continuations.
func After(context string, continuations []string) []Pair {
	pairs := make([]Pair, len(continuations))
	for i, continuation := range continuations {
		pairs[i] = Pair{context, continuation}
	}
	return pairs
}
