package score

import (
	"time"

	"coalmine/internal/contracts"
)

// contract holds the rules of docs/contracts/score.md.
var contract = contracts.Contract{Name: "score", Version: 1}

// The rules, in the words and order of the page.
var (
	OneObjectALine   = contract.Rule("Standard output is for answers alone: one JSON object a line, in UTF-8, of at most 64 MiB. Whatever is for people goes to standard error.")
	OneAnswerEach    = contract.Rule("Every request is answered exactly once, by its `id`. Answers may come in any order.")
	DescribeFirst    = contract.Rule("The first request is `describe`. Its result names the contract, its version, the model, its longest input, whether it is deterministic, and its methods.")
	InTheirOrder     = contract.Rule("The result of `loglikelihood` has for every pair, in their order, a list of two: the log-probability of the continuation after the context, and whether it is the greedy one.")
	FiniteLogarithms = contract.Rule("A log-probability is a natural logarithm: a finite number, not above 0; the text `-inf` stands for that of a probability of 0.")
	EmptyContext     = contract.Rule("A context may be empty. The continuation is then what a text begins with.")
	SpacesBelong     = contract.Rule("Spaces between context and continuation belong to the continuation. Both are scored as they are: nothing is stripped, added or changed.")
	NothingIsCut     = contract.Rule("An input longer than `longest_input` is an error. It is never cut.")
	ErrorsAreAnswers = contract.Rule("What goes wrong with a request is answered by an `error` with a `message`, and with `retry` true if the same request may succeed later. The command then goes on.")
	UnknownMethods   = contract.Rule("A method that the command does not have is an error.")
	Deterministic    = contract.Rule("A command that is `deterministic` gives equal requests equal answers, to the last bit.")
	EndsWithItsInput = contract.Rule("When standard input ends, the command answers what it was asked, ends with exit status 0, and leaves no process behind.")
	TokensAddUp      = contract.Rule("The result of `token_logprobs` has for every pair the log-probabilities of the continuation's tokens. They add up to that of `loglikelihood`.")
	GreedyText       = contract.Rule("The result of `generate_until` has for every prompt the text that greedy decoding gives after it: at most `max_tokens` tokens, up to the first of the texts in `until`, which is left out.")
	ClassesAddUp     = contract.Rule("The result of `classify` has for every image, in their order, a list with the log-probability of each class, from class 0 on. Their probabilities add up to 1.")
	AtMostOne        = contract.Rule("After one context the probabilities of continuations of which none begins another add up to at most 1.")
)

// speech returns the parameters of a conversation with a command.
func speech(name string) contracts.Speech {
	return contracts.Speech{
		Who: "command", Name: name, Patience: DefaultTimeout,
		OneObjectALine: OneObjectALine, OneAnswerEach: OneAnswerEach, FiniteNumbers: FiniteLogarithms, EndsWithItsInput: EndsWithItsInput,
	}
}

// DefaultTimeout is the time for a request, and for the loading of the model.
const DefaultTimeout = 5 * time.Minute
