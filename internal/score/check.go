package score

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/contracts"
)

// Report is the result of a check.
type Report struct {
	contracts.Identity
	// Command is the command's answer to describe; null if it is missing.
	Command  *Description        `json:"command"`
	Findings []contracts.Finding `json:"checks"`
}

// DefaultTexts are the texts of a check, unless the model knows other words.
var DefaultTexts = []string{
	"the people of the united states are free",
	"it was a bright cold day in april",
	"my number is 4 8 1 5",
	"to be or not to be that is the question",
}

// minTexts and minWords are the minimum numbers of texts and words of a check.
const minTexts, minWords = 3, 3

// CheckTexts returns an error unless texts are suitable: enough, distinct, each of several words.
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

// checker tests a command, and restarts it when it has broken a rule.
type checker struct {
	ctx     context.Context
	options Options
	texts   []string
	shape   Shape // of images
	classes int   // of images; 0 for a model of texts
	things  []thing
	client  *Client
	report  *Report
}

type thing struct {
	pair  Pair
	image []byte
}

// Check checks a command with texts. The error is about texts, or from ctx.
func Check(ctx context.Context, o Options, texts []string) (*Report, error) {
	if err := CheckTexts(texts); err != nil {
		return nil, err
	}
	c := &checker{ctx: ctx, options: o, texts: texts}
	for _, pair := range c.halves() {
		c.things = append(c.things, thing{pair: pair})
	}
	order := contracts.Check{ID: "order", Name: "scores several pairs in their order", Rule: InTheirOrder}
	return c.run(order, []contracts.Check{
		{ID: "empty-context", Name: "accepts an empty context", Rule: EmptyContext, Run: c.empty},
		{ID: "spaces", Name: "scores a continuation with the space before it", Rule: SpacesBelong, Run: c.spaces},
		{ID: "too-long", Name: "rejects an input that is too long", Rule: NothingIsCut, Run: c.long},
	}, []contracts.Check{
		{ID: "total-probability", Name: "gives probabilities that add up to at most 1", Rule: AtMostOne, Run: c.total},
		{ID: "token-sums", Name: "gives log-probabilities of tokens that add up", Rule: TokensAddUp, Run: c.tokens},
		{ID: "generation", Name: "generates greedily up to a stop text", Rule: GreedyText, Run: c.generated},
	})
}

const checkedImages = 5

// CheckImages is Check for a command that classifies images of a shape. It uses synthetic images.
func CheckImages(ctx context.Context, o Options, s Shape, classes int) (*Report, error) {
	c := &checker{ctx: ctx, options: o, shape: s, classes: classes}
	for i := range checkedImages {
		c.things = append(c.things, thing{image: contracts.Image(s.Height*s.Width*s.Channels, classes, i)})
	}
	return c.run(contracts.Check{ID: "order", Name: "classifies several images in their order", Rule: ClassesAddUp}, nil, nil)
}

// underWay is the number of concurrent requests.
const underWay = 4

// run makes the checks common to all models, with order among them, and the checks for texts before and
// after the last of them.
func (c *checker) run(order contracts.Check, before, after []contracts.Check) (*Report, error) {
	order.Run = func() error { return c.order(order.Rule) }
	c.options.Concurrency = underWay
	c.report = &Report{Identity: contract.Identity()}
	defer c.stop()
	var err error
	c.report.Findings, err = contracts.Run(c.ctx, slices.Concat([]contracts.Check{
		{ID: "describe", Name: "describes itself", Rule: DescribeFirst, Run: func() error { return nil }}, // checked by starting
		order,
		{ID: "concurrency", Name: "answers concurrent requests, each by its id", Rule: OneAnswerEach, Run: c.together},
	}, before, []contracts.Check{
		{ID: "unknown-method", Name: "answers an unknown method with an error, and goes on", Rule: UnknownMethods, Run: c.unknown},
		{ID: "determinism", Name: "gives equal requests equal answers", Rule: Deterministic, Run: c.again},
	}, after, []contracts.Check{
		{ID: "end-of-input", Name: "ends with its input", Rule: EndsWithItsInput, Run: c.end},
	}), c.start)
	return c.report, err
}

// start starts the command, unless it runs.
func (c *checker) start() error {
	if c.client != nil && c.client.conversation.Usable() {
		return nil
	}
	c.stop()
	client, err := Start(c.ctx, c.options)
	if err != nil {
		return err
	}
	c.client, c.report.Command = client, &client.Description
	return nil
}

func (c *checker) stop() {
	if c.client != nil {
		_ = c.client.Close() // its end has a separate check
		c.client = nil
	}
}

// halves returns the texts, each split into two parts.
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

// reply is an answer: one log-probability for a pair, those of all classes for an image.
type reply struct {
	logProbs []float64
	greedy   bool
}

// replies requests pairs or images in batches.
func (c *checker) replies(list []thing, batch int) ([]reply, error) {
	replies := make([]reply, len(list))
	if c.classes > 0 {
		images := make([][]byte, len(list))
		for i := range list {
			images[i] = list[i].image
		}
		rows, err := c.client.Classify(c.ctx, c.shape, images, c.classes, batch)
		for i := range rows {
			replies[i].logProbs = rows[i]
		}
		return replies, err
	}
	pairs := make([]Pair, len(list))
	for i := range list {
		pairs[i] = list[i].pair
	}
	answers, err := c.ask(pairs, batch)
	for i, a := range answers {
		replies[i] = reply{[]float64{a.LogProb}, a.Greedy}
	}
	return replies, err
}

// Alike reports whether two scores may belong to one text: models that compute in 16 bits and in batches
// differ by less.
func Alike(a, b float64) bool { return math.Abs(a-b) <= 0.1+0.02*math.Abs(a) }

// unlike finds the first scores that differ: the index of the pair or image, and of the class; negative if
// there are none.
func unlike(a, b []reply) (i, k int) {
	for i := range a {
		for k := range a[i].logProbs {
			if !Alike(a[i].logProbs[k], b[i].logProbs[k]) {
				return i, k
			}
		}
	}
	return -1, -1
}

// scored names a score in messages.
func (c *checker) scored(i, k int) string {
	if c.classes > 0 {
		return fmt.Sprintf("class %d of image %d", k, i+1)
	}
	return fmt.Sprintf("pair %d", i+1)
}

// order compares answers to the list and to its reverse.
func (c *checker) order(rule contracts.Rule) error {
	first, second, err := contracts.InBothOrders(c.things, func(list []thing) ([]reply, error) { return c.replies(list, len(list)) })
	if err != nil {
		return err
	}
	if i, k := unlike(first, second); i >= 0 {
		return rule.Errorf("%s of %d in a request has the log-probability %g, but %g if the request lists them in reverse order", c.scored(i, k), len(first), first[i].logProbs[k], second[i].logProbs[k])
	}
	return nil
}

// twice requests everything in batches of two sizes.
func (c *checker) twice(one, other int) (first, second []reply, err error) {
	if first, err = c.replies(c.things, one); err == nil {
		second, err = c.replies(c.things, other)
	}
	return first, second, err
}

// together compares batched requests with individual ones.
func (c *checker) together() error {
	batch, alone, err := c.twice(len(c.things), 1)
	if err != nil {
		return err
	}
	if i, k := unlike(batch, alone); i >= 0 {
		return OneAnswerEach.Errorf("it gives %s the log-probability %g among others, and %g in a separate concurrent request; does an answer have the id of another request?", c.scored(i, k), batch[i].logProbs[k], alone[i].logProbs[k])
	}
	largest := 0.0
	for i := range batch {
		for k, p := range batch[i].logProbs {
			largest = max(largest, math.Abs(p-alone[i].logProbs[k]))
		}
	}
	if largest > 0 && c.classes == 0 {
		return contracts.Doubt("scores of one pair alone and in a batch differ by up to %.3g; audits give ranks as intervals by such differences", largest)
	}
	return nil
}

func (c *checker) again() error {
	if !c.client.Description.Deterministic {
		return contracts.Skip("it does not declare itself deterministic")
	}
	first, second, err := c.twice(len(c.things), len(c.things))
	if err != nil {
		return err
	}
	for i := range first {
		if first[i].greedy != second[i].greedy || !slices.Equal(first[i].logProbs, second[i].logProbs) {
			return Deterministic.Errorf("it answers number %d of a request by %v, and of the same request the second time by %v; expected the same, since it calls itself deterministic", i+1, first[i], second[i])
		}
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
		if !Alike(whole, parts) {
			return contracts.Doubt("%q has the log-probability %g, and its parts %q and %q together %g; either the space between is lost, or the tokenizer cuts them otherwise than the whole", pairs[i].Continuation, whole, pairs[i+2].Context, pairs[i+2].Continuation, parts)
		}
	}
	return nil
}

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

// longestAsked is the longest input of a check, in words.
const longestAsked = 1 << 20

// long requests one word more than the model's longest input.
func (c *checker) long() error {
	most := c.client.Description.LongestInput
	if most == 0 || most > longestAsked {
		return contracts.Skip("its longest_input is %d", most)
	}
	words := strings.Fields(c.texts[0])
	long := strings.Repeat(strings.Join(words, " ")+" ", most/len(words)+1)
	about := payload{Pairs: []Pair{{strings.TrimSpace(long), " " + words[0]}}}
	return c.client.conversation.Refuses(c.ctx, ErrorsAreAnswers, logLikelihood, about, func(result json.RawMessage) error {
		return NothingIsCut.Errorf("it answers a pair of %d words by %s; expected an error, since its longest_input is %d tokens", len(words)*(most/len(words)+1)+1, contracts.Quote(result), most)
	}, c.askOne)
}

func (c *checker) unknown() error {
	return c.client.conversation.RefusesUnknown(c.ctx, UnknownMethods, ErrorsAreAnswers, c.askOne)
}

func (c *checker) askOne() error {
	_, err := c.replies(c.things[:1], 1)
	return err
}

func (c *checker) tokens() error {
	if !c.client.Description.Has(TokenLogProbs) {
		return contracts.Skip("it does not have this method")
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
	for i, logProbs := range tokens {
		sum := 0.0
		for _, p := range logProbs {
			sum += p
		}
		if len(logProbs) == 0 || !Alike(answers[i].LogProb, sum) {
			return TokensAddUp.Errorf("the %d tokens of pair %d add up to %g; expected %g, the value of loglikelihood", len(logProbs), i+1, sum, answers[i].LogProb)
		}
	}
	return nil
}

// generated requests texts, and one of them up to its first word.
func (c *checker) generated() error {
	if !c.client.Description.Has(GenerateUntil) {
		return contracts.Skip("it does not have this method")
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
		return contracts.Doubt("it generates nothing after %q", prompts)
	}
	end := strings.Fields(texts[first])[0]
	cut, err := c.generate(prompts[first:first+1], end)
	if err != nil {
		return err
	}
	if before, _, _ := strings.Cut(texts[first], end); cut[0] != before {
		return GreedyText.Errorf("after %q it generates %q, and up to %q it generates %q; expected %q", prompts[first], texts[first], end, cut[0], before)
	}
	answers, err := c.ask([]Pair{{prompts[first], texts[first]}}, 1)
	if err == nil && !answers[0].Greedy {
		err = contracts.Doubt("it generates %q after %q, and does not call it greedy; either it samples, or the tokenizer cuts the text otherwise", texts[first], prompts[first])
	}
	return err
}

const generatedTokens = 6

func (c *checker) generate(prompts []string, until string) (texts []string, err error) {
	about := payload{Prompts: prompts, Until: []string{until}, MaxTokens: generatedTokens}
	err = c.client.request(c.ctx, GenerateUntil, about, func(result json.RawMessage) (err error) {
		texts, err = listOf[string](GreedyText, result, len(prompts), "prompts")
		return err
	})
	for _, text := range texts {
		if strings.Contains(text, until) {
			return nil, GreedyText.Errorf("it generates %q up to %q; expected a text without it", text, until)
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
