package score

import (
	"fmt"

	"coalmine/internal/conversation"
)

// Contract and Version name what is spoken here.
const (
	Contract = "coalmine/score"
	Version  = 1
)

// Rule is a sentence of the contract, docs/contracts/score.md, by its number there.
type Rule int

// The rules of the contract.
const (
	OneObjectALine Rule = iota + 1
	OneAnswerEach
	DescribeFirst
	InTheirOrder
	FiniteLogarithms
	EmptyContext
	SpacesBelong
	NothingIsCut
	ErrorsAreAnswers
	UnknownMethods
	Deterministic
	EndsWithItsInput
	TokensAddUp
	GreedyText
	ClassesAddUp
)

// rules are the sentences of the page, word for word.
var rules = map[Rule]string{
	OneObjectALine:   "Standard output is for answers alone: one JSON object a line, in UTF-8, of at most 64 MiB. Whatever is for people goes to standard error.",
	OneAnswerEach:    "Every request is answered exactly once, by its `id`. Answers may come in any order.",
	DescribeFirst:    "The first request is `describe`. Its result names the contract, its version, the model, its longest input, whether it is deterministic, and its methods.",
	InTheirOrder:     "The result of `loglikelihood` has for every pair, in their order, a list of two: the log-probability of the continuation after the context, and whether it is the greedy one.",
	FiniteLogarithms: "A log-probability is a natural logarithm: a finite number, not above 0.",
	EmptyContext:     "A context may be empty. The continuation is then what a text begins with.",
	SpacesBelong:     "Spaces between context and continuation belong to the continuation. Both are scored as they are: nothing is stripped, added or changed.",
	NothingIsCut:     "An input longer than `longest_input` is an error. It is never cut.",
	ErrorsAreAnswers: "What goes wrong with a request is answered by an `error` with a `message`, and with `retry` true if the same request may succeed later. The command then goes on.",
	UnknownMethods:   "A method that the command does not have is an error.",
	Deterministic:    "A command that is `deterministic` gives equal requests equal answers, to the last bit.",
	EndsWithItsInput: "When standard input ends, the command answers what it was asked, ends with exit status 0, and leaves no process behind.",
	TokensAddUp:      "The result of `token_logprobs` has for every pair the log-probabilities of the continuation's tokens. They add up to that of `loglikelihood`.",
	GreedyText:       "The result of `generate_until` has for every prompt the text that greedy decoding gives after it: at most `max_tokens` tokens, up to the first of the texts in `until`, which is left out.",
	ClassesAddUp:     "The result of `classify` has for every image, in their order, a list with the log-probability of each class, from class 0 on. Their probabilities add up to 1.",
}

// String is the sentence.
func (r Rule) String() string { return rules[r] }

// Violation is what a command did against a rule.
type Violation struct {
	Rule Rule
	What string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s (rule %d of the contract)", v.What, v.Rule)
}

func (r Rule) broken(format string, args ...any) error {
	return &Violation{r, fmt.Sprintf(format, args...)}
}

// spoken are the rules of every conversation.
var spoken = conversation.Rules{
	OneObjectALine: OneObjectALine.broken, OneAnswerEach: OneAnswerEach.broken, InTime: OneAnswerEach.broken, FiniteNumbers: FiniteLogarithms.broken,
}
