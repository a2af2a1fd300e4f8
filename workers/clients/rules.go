package clients

import (
	"errors"
	"fmt"

	"coalmine/internal/conversation"
)

// Contract and Version name what is spoken here.
const (
	Contract = "coalmine/client"
	Version  = 1
)

// Rule is a sentence of the contract, docs/contracts/client.md, by its number there.
type Rule int

// The rules of the contract.
const (
	OneObjectALine Rule = iota + 1
	OneAnswerEach
	DescribeFirst
	SameTensors
	FiniteNumbers
	FilesAsAsked
	SeededStart
	NoMemory
	WhatFitSays
	WhatEvaluateSays
	InTheirOrder
	ErrorsAreAnswers
	UnknownMethods
	Deterministic
	EndsWithItsInput
)

// rules are the sentences of the page, word for word.
var rules = map[Rule]string{
	OneObjectALine:   "Standard output is for answers alone: one JSON object a line, in UTF-8, of at most 64 MiB. Whatever is for people goes to standard error.",
	OneAnswerEach:    "Every request is answered exactly once, by its `id`. The next one comes after the answer.",
	DescribeFirst:    "The first request is `describe`. Its result names the contract, its version, the program, the parameters with their shapes, what it reads, and whether it is deterministic.",
	SameTensors:      "Parameters are a safetensors file of 32-bit floats. It has the tensors that `describe` names, with their shapes, and no others: in every file, in every round.",
	FiniteNumbers:    "Parameters, losses and log-probabilities are finite numbers. A loss is not below 0, a log-probability not above 0.",
	FilesAsAsked:     "A file that a request names to be read is only read. One that it names to be written is complete before the answer.",
	SeededStart:      "The parameters of `initial` depend on the configuration and the seed alone.",
	NoMemory:         "An answer depends on its request and the configuration, not on the requests before: another process that is asked the same might answer the same.",
	WhatFitSays:      "The result of `fit` has `examples`, how many it has learned from, at least 1. It may have `metrics`, an object of numbers; `loss` and `targets` go together.",
	WhatEvaluateSays: "The result of `evaluate` has `loss`, the mean of -log p of the targets in nats, `targets`, how many they are, and `correct`, how many first guesses were right.",
	InTheirOrder:     "The result of `loglikelihood` has for every pair, in their order, a list of two: the log-probability of the continuation after the context, and whether it is the greedy one.",
	ErrorsAreAnswers: "What goes wrong with a request is answered by an `error` with a `message`, and with `retry` true if the same request may succeed later. The program then goes on.",
	UnknownMethods:   "A method that the program does not have is an error.",
	Deterministic:    "A program that is `deterministic` gives equal requests equal answers and equal files, to the last bit, in every process of the same machine.",
	EndsWithItsInput: "When standard input ends, the program ends with exit status 0, and leaves no process behind.",
}

// String is the sentence.
func (r Rule) String() string { return rules[r] }

// Violation is what a program did against a rule.
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

// lateError is that of an answer that does not come. Another try may mend it.
type lateError struct{ error }

func (e lateError) Unwrap() error { return e.error }

func late(format string, args ...any) error {
	return lateError{OneAnswerEach.broken(format, args...)}
}

// spoken are the rules of every conversation.
var spoken = conversation.Rules{
	OneObjectALine: OneObjectALine.broken, OneAnswerEach: OneAnswerEach.broken, InTime: late, FiniteNumbers: FiniteNumbers.broken,
}

// RuleOf is the rule of the contract that an error says was broken, or 0.
func RuleOf(err error) Rule {
	if v, ok := errors.AsType[*Violation](err); ok {
		return v.Rule
	}
	return 0
}
