package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/conformance"
	"coalmine/internal/conversation"
)

// Report is what Check found.
type Report struct {
	Contract string `json:"contract"`
	Version  int    `json:"version"`
	// Command is what the implementation says of itself; null if it does not.
	Command  *Description          `json:"command"`
	Findings []conformance.Finding `json:"checks"`
}

// DefaultTexts are what a model is asked about, unless it knows other words.
var DefaultTexts = []string{
	"the people of the united states are free",
	"it was a bright cold day in april",
	"my number is 4 8 1 5",
	"to be or not to be that is the question",
}

// minTexts and minWords are what the texts of a check must have.
const minTexts, minWords = 3, 3

// CheckTexts says whether texts can be asked about: some, different, each of some words.
func CheckTexts(texts []string) error {
	if len(texts) < minTexts {
		return fmt.Errorf("%d texts; expected at least %d, one a line", len(texts), minTexts)
	}
	for i, text := range texts {
		if len(strings.Fields(text)) < minWords || slices.Contains(texts[:i], text) {
			return fmt.Errorf("text %d is %q; expected at least %d words, and no text twice", i+1, text, minWords)
		}
	}
	return nil
}

// check is one thing that an implementation must do.
type check struct {
	name string
	rule conformance.Rule
	run  func(*checker) error
}

// checks are made in this order, by one process as long as it keeps the contract.
var checks = []check{
	{"describes itself", DescribeFirst, func(*checker) error { return nil }}, // by starting
	{"scores several pairs in their order", InTheirOrder, (*checker).order},
	{"answers several requests under way, each by its id", OneAnswerEach, (*checker).together},
	{"takes an empty context", EmptyContext, (*checker).empty},
	{"scores a continuation with the space before it", SpacesBelong, (*checker).spaces},
	{"cuts no input that is too long", NothingIsCut, (*checker).long},
	{"answers an unknown method by an error, and goes on", UnknownMethods, (*checker).unknown},
	{"gives equal requests equal answers", Deterministic, (*checker).again},
	{"gives probabilities that add up to at most 1", AtMostOne, (*checker).total},
	{"gives tokens that add up", TokensAddUp, (*checker).tokens},
	{"generates up to a text, greedily", GreedyText, (*checker).generated},
	{"ends with its input", EndsWithItsInput, (*checker).end},
}

// checker asks an implementation, and starts it again when it has broken a rule.
type checker struct {
	ctx     context.Context
	options Options
	texts   []string
	images  [][]byte // of the shape and so many classes; none for a model of texts
	shape   Shape
	classes int
	client  *Client
	report  *Report
}

func newChecker(ctx context.Context, o Options) *checker {
	o.Concurrency = underWay
	return &checker{ctx: ctx, options: o, report: &Report{Contract: Contract, Version: Version}}
}

// Check says what a command does wrong. The error is that of texts, or of ctx.
func Check(ctx context.Context, o Options, texts []string) (*Report, error) {
	if err := CheckTexts(texts); err != nil {
		return nil, err
	}
	c := newChecker(ctx, o)
	c.texts = texts
	return c.run(checks)
}

// run makes checks.
func (c *checker) run(list []check) (*Report, error) {
	defer c.stop()
	for _, one := range list {
		finding := c.make(one)
		if c.ctx.Err() != nil {
			return nil, context.Cause(c.ctx)
		}
		c.report.Findings = append(c.report.Findings, finding)
		if c.report.Command == nil {
			break // what does not start cannot be asked
		}
	}
	return c.report, nil
}

// underWay is how many requests are asked at a time.
const underWay = 4

func (c *checker) make(one check) conformance.Finding {
	err := c.start()
	if err == nil {
		err = one.run(c)
	}
	return conformance.Found(one.name, one.rule, err)
}

// start starts the command, unless it runs.
func (c *checker) start() error {
	if c.client != nil {
		select {
		case <-c.client.talk.Over():
			c.stop()
		default:
			return nil
		}
	}
	client, err := Start(c.ctx, c.options)
	if err != nil {
		return err
	}
	c.client, c.report.Command = client, &client.Description
	return nil
}

func (c *checker) stop() {
	if c.client != nil {
		_ = c.client.Close() // the check of its end is another
		c.client = nil
	}
}

// halves are the texts in two parts.
func (c *checker) halves() []Pair {
	pairs := make([]Pair, len(c.texts))
	for i, text := range c.texts {
		words := strings.Fields(text)
		pairs[i] = Pair{strings.Join(words[:len(words)/2], " "), " " + strings.Join(words[len(words)/2:], " ")}
	}
	return pairs
}

func (c *checker) ask(pairs []Pair, batch int) ([]Answer, error) {
	return c.client.LogLikelihoods(c.ctx, pairs, batch)
}

// alike says whether two scores may be of one text: models that compute in 16 bits and in
// batches differ by less.
func alike(a, b float64) bool { return math.Abs(a-b) <= 0.1+0.02*math.Abs(a) }

// order asks for pairs, and for the same from the last to the first.
func (c *checker) order() error {
	pairs := c.halves()
	answers, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	slices.Reverse(pairs)
	reversed, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	slices.Reverse(reversed)
	for i := range answers {
		if !alike(answers[i].LogProb, reversed[i].LogProb) {
			return InTheirOrder.Broken("it gives pair %d of %d the log-probability %g, and the same pair %g when they are asked from the last to the first", i+1, len(answers), answers[i].LogProb, reversed[i].LogProb)
		}
	}
	return nil
}

// together asks for pairs in requests of their own.
func (c *checker) together() error {
	pairs := c.halves()
	batch, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	alone, err := c.ask(pairs, 1)
	if err != nil {
		return err
	}
	largest := 0.0
	for i := range batch {
		if !alike(batch[i].LogProb, alone[i].LogProb) {
			return OneAnswerEach.Broken("it gives pair %d the log-probability %g among others, and %g in a request of its own beside others; does an answer have the id of another request?", i+1, batch[i].LogProb, alone[i].LogProb)
		}
		largest = max(largest, math.Abs(batch[i].LogProb-alone[i].LogProb))
	}
	if largest > 0 {
		return conformance.DoubtBecause(fmt.Errorf("scores of one pair alone and in a batch differ by up to %.3g; audits give ranks as intervals by such differences", largest))
	}
	return nil
}

func (c *checker) empty() error {
	_, err := c.ask([]Pair{{"", c.texts[0]}}, 1)
	return err
}

// spaces compares a text with the sum of its parts.
func (c *checker) spaces() error {
	var pairs []Pair
	for _, pair := range c.halves() {
		pairs = append(pairs, Pair{"", pair.Context + pair.Continuation}, Pair{"", pair.Context}, pair)
	}
	answers, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	for i := 0; i < len(pairs); i += 3 {
		whole, parts := answers[i].LogProb, answers[i+1].LogProb+answers[i+2].LogProb
		if !alike(whole, parts) {
			return conformance.DoubtBecause(fmt.Errorf("%q has the log-probability %g, and its parts %q and %q together %g; either the space between is lost, or the tokenizer cuts them otherwise than the whole", pairs[i].Continuation, whole, pairs[i+2].Context, pairs[i+2].Continuation, parts))
		}
	}
	return nil
}

// total asks for all words of the texts after one context.
func (c *checker) total() error {
	var words []string
	for _, text := range c.texts {
		for _, word := range strings.Fields(text) {
			words = append(words, " "+word)
		}
	}
	pairs := After(c.halves()[0].Context, words)
	answers, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	return CheckTotal(pairs, answers)
}

// longestAsked is the largest input that a check makes, in words.
const longestAsked = 1 << 20

// long asks for one word more than there may be tokens.
func (c *checker) long() error {
	most := c.client.Description.LongestInput
	if most == 0 || most > longestAsked {
		return conformance.SkipBecause(fmt.Errorf("its longest_input is %d", most))
	}
	words := strings.Fields(c.texts[0])
	long := strings.Repeat(strings.Join(words, " ")+" ", most/len(words)+1)
	a, err := c.client.try(c.ctx, logLikelihood, payload{Pairs: []Pair{{strings.TrimSpace(long), " " + words[0]}}})
	switch {
	case err != nil:
		return err
	case a.Error == nil:
		return NothingIsCut.Broken("it answers a pair of %d words by %s; expected an error, since its longest_input is %d tokens", len(words)*(most/len(words)+1)+1, conversation.Quote(a.Result), most)
	}
	return c.goesOn(a)
}

func (c *checker) unknown() error {
	a, err := c.client.try(c.ctx, "no_such_method", payload{})
	switch {
	case err != nil:
		return err
	case a.Error == nil:
		return UnknownMethods.Broken("it answers the method %q by %s; expected an error", "no_such_method", conversation.Quote(a.Result))
	}
	return c.goesOn(a)
}

// goesOn looks at an error, and whether the command still answers.
func (c *checker) goesOn(a *conversation.Answer) error {
	if a.Error.Message == "" {
		return ErrorsAreAnswers.Broken("its error has no message; expected what went wrong")
	}
	if err := c.askOne(); err != nil {
		return &after{err}
	}
	return nil
}

// askOne asks about one text or image.
func (c *checker) askOne() (err error) {
	if len(c.images) > 0 {
		_, err = c.classify(c.images[:1], 1)
		return err
	}
	_, err = c.ask(c.halves()[:1], 1)
	return err
}

// after is an error that came after one that was expected.
type after struct{ error }

func (e *after) Error() string { return "after an error: " + e.error.Error() }

func (e *after) Unwrap() error { return e.error }

func (c *checker) again() error {
	if !c.client.Description.Deterministic {
		return conformance.SkipBecause(errors.New("it does not call itself deterministic"))
	}
	pairs := c.halves()
	first, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	second, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	for i := range first {
		if first[i] != second[i] {
			return Deterministic.Broken("it answers pair %d of a request by %v, and of the same request the second time by %v; expected the same, since it calls itself deterministic", i+1, first[i], second[i])
		}
	}
	return nil
}

func (c *checker) tokens() error {
	if !c.client.Description.Has(TokenLogProbs) {
		return conformance.SkipBecause(errors.New("it does not have this method"))
	}
	pairs := c.halves()
	var tokens [][]float64
	err := c.client.request(c.ctx, TokenLogProbs, payload{Pairs: pairs}, func(result json.RawMessage) (err error) {
		tokens, err = decodeTokens(result, len(pairs))
		return err
	})
	if err != nil {
		return err
	}
	answers, err := c.ask(pairs, len(pairs))
	if err != nil {
		return err
	}
	for i, of := range tokens {
		sum := 0.0
		for _, p := range of {
			sum += p
		}
		if len(of) == 0 || !alike(answers[i].LogProb, sum) {
			return TokensAddUp.Broken("the %d tokens of pair %d add up to %g; expected %g, as loglikelihood says", len(of), i+1, sum, answers[i].LogProb)
		}
	}
	return nil
}

// generated asks for texts, and for one of them up to its first word.
func (c *checker) generated() error {
	if !c.client.Description.Has(GenerateUntil) {
		return conformance.SkipBecause(errors.New("it does not have this method"))
	}
	var prompts []string
	for _, pair := range c.halves() {
		prompts = append(prompts, pair.Context)
	}
	texts, err := c.generate(prompts, "\n")
	if err != nil {
		return err
	}
	first := slices.IndexFunc(texts, func(text string) bool { return len(strings.Fields(text)) > 0 })
	if first < 0 {
		return conformance.DoubtBecause(fmt.Errorf("it generates nothing after %q", prompts))
	}
	end := strings.Fields(texts[first])[0]
	cut, err := c.generate(prompts[first:first+1], end)
	if err != nil {
		return err
	}
	if before, _, _ := strings.Cut(texts[first], end); cut[0] != before {
		return GreedyText.Broken("after %q it generates %q, and up to %q it generates %q; expected %q", prompts[first], texts[first], end, cut[0], before)
	}
	answers, err := c.ask([]Pair{{prompts[first], texts[first]}}, 1)
	if err == nil && !answers[0].Greedy {
		err = conformance.DoubtBecause(fmt.Errorf("it generates %q after %q, and does not call it greedy; either it samples, or the tokenizer cuts the text otherwise", texts[first], prompts[first]))
	}
	return err
}

// generatedTokens is how many tokens are asked for.
const generatedTokens = 6

func (c *checker) generate(prompts []string, until string) (texts []string, err error) {
	about := payload{Prompts: prompts, Until: []string{until}, MaxTokens: generatedTokens}
	err = c.client.request(c.ctx, GenerateUntil, about, func(result json.RawMessage) (err error) {
		texts, err = decodeTexts(result, len(prompts))
		return err
	})
	for _, text := range texts {
		if strings.Contains(text, until) {
			return nil, GreedyText.Broken("it generates %q up to %q; expected a text without it", text, until)
		}
	}
	return texts, err
}

// end closes the command's input.
func (c *checker) end() error {
	err := c.client.Close()
	c.client = nil
	return err
}
