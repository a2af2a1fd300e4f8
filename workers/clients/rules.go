package clients

import (
	"coalmine/internal/contracts"
)

// contract holds the rules of docs/contracts/client.md.
var contract = contracts.Contract{Name: "client", Version: 2, Oldest: 1}

// The rules, in the words and order of the page.
var (
	OneObjectALine   = contract.Rule("Standard output is for answers alone: one JSON object a line, in UTF-8, of at most 64 MiB. Messages for people go to standard error.")
	OneAnswerEach    = contract.Rule("Every request is answered exactly once, by its `id`. The next one comes after the answer.")
	DescribeFirst    = contract.Rule("The first request is `describe`. Its result names the contract, its version, the program, the parameters with their shapes, what it reads, and whether it is deterministic.")
	SameTensors      = contract.Rule("Parameters are a safetensors file of 32-bit floats. It has the tensors that `describe` names, with their shapes, and no others, in every file, in every round. Files that `fit`, `fit_many` and `sum` write lack the `frozen` tensors.")
	FiniteNumbers    = contract.Rule("Parameters, losses and log-probabilities are finite numbers. A loss is not below 0, a log-probability not above 0; the text `-inf` stands for that of a probability of 0.")
	FilesAsAsked     = contract.Rule("A file that a request names to be read is only read. One that it names to be written is complete before the answer.")
	SeededStart      = contract.Rule("The parameters of `initial` depend on the configuration and the seed alone.")
	NoMemory         = contract.Rule("An answer depends on its request and the configuration, not on the requests before: another process that is asked the same might answer the same.")
	WhatFitSays      = contract.Rule("The result of `fit` has `examples`, the number that it has learned from, at least 1 and at most the number in the request. It may have `metrics`, an object of at most 100 numbers whose names have at most 100 bytes; `loss` and `targets` go together.")
	WhatEvaluateSays = contract.Rule("The result of `evaluate` has `loss`, the mean of -log p of the targets in nats, `targets`, their number, at most that of the examples, and `correct`, the number of right first guesses.")
	InTheirOrder     = contract.Rule("The result of `loglikelihood` has for every pair, in their order, a list of two: the log-probability of the continuation after the context, and whether it is the greedy one.")
	ErrorsAreAnswers = contract.Rule("If a request fails, the answer has an `error` with a `message`, and `retry` true if the same request may succeed later. The program then goes on.")
	UnknownMethods   = contract.Rule("A method that the program does not have is an error.")
	Deterministic    = contract.Rule("A program that is `deterministic` gives equal requests equal answers and equal files, to the last bit, in every process of the same machine.")
	EndsWithItsInput = contract.Rule("When standard input ends, the program ends with exit status 0, and leaves no process behind.")
	AtMostOne        = contract.Rule("After one context the probabilities of different tokens add up to at most 1.")
	ManyUsers        = contract.Rule("The `fit_many` of `describe` has `users`, at least 1, and `tolerance`, from 0 to 1. It depends on the configuration alone.")
	FilesOfMany      = contract.Rule("The result of `fit_many` has `users`, a list with the result of `fit` for every user in their order. Each of its `files` has the tensors of rule 4 with a first axis over the next `per_file` users, over the rest in the last file, and the `stamp` of the request in its metadata.")
	ManyAsOne        = contract.Rule("The parameters of a user from `fit_many` are those of `fit`: the L2 norm of their difference is at most `tolerance` times that of the user's update.")
	SumOfMany        = contract.Rule("The result of `sum` has `users` as that of `fit_many`, each with `norm`, the L2 norm of the user's update. Its file has the tensors of rule 4 and the `stamp` of the request: the sum over the users of weight x min(1, clip / norm) x update.")
	TreeAsPairs      = contract.Rule("The result of `loglikelihood` of a `tree` has for every node, in their order, the list of rule 11 for the token of the node after those of its ancestors.")
)

// protocol returns the parameters of a conversation with a program.
func protocol(name string) contracts.Protocol {
	return contracts.Protocol{
		Who: "program", Name: name, Patience: DefaultTimeout, MoreTime: contracts.RaiseAnswer,
		OneObjectALine: OneObjectALine, OneAnswerEach: OneAnswerEach, FiniteNumbers: FiniteNumbers, EndsWithItsInput: EndsWithItsInput,
	}
}
