package external

import (
	"errors"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
)

// contract has the rules of docs/contracts/train.md.
var contract = contracts.Contract{Name: "train", Version: 1}

// The rules, in the words and the order of the page.
var (
	InItsDirectory  = contract.Rule("The command starts in a directory of its own. It writes below `checkpoint`, `out` and the directory that `TMPDIR` names, and nowhere else.")
	InputsStay      = contract.Rule("It leaves the files below `in` and the code unchanged.")
	WholeCheckpoint = contract.Rule("The files below `checkpoint` are whole and fit each other at any time: a new one is written elsewhere and renamed. They may be taken away at any moment, and the process with them.")
	GoesOn          = contract.Rule("A command that finds files below `checkpoint` goes on from there. It ends with the model that it would have had without the interruption, or one as good.")
	MetricLines     = contract.Rule("A line of `out/metrics.jsonl` is a JSON object with a `round`, a whole number from 1 to the `rounds` of the job, and finite numbers. A line about a round takes the place of earlier ones about it.")
	EndsWhenAsked   = contract.Rule("Asked to end by SIGTERM, the command writes its checkpoint and ends within 20 seconds.")
	SaysHowItEnded  = contract.Rule("Exit status 0 says that the training is over, 75 that it is to continue later. Any other up to 128 says that it has failed for good.")
	WholeResult     = contract.Rule("When it ends with exit status 0, `out/result.json` is a JSON object of texts.")
	NamesItsModel   = contract.Rule("That object has `score`, a command line that scores texts by the model as the contract score says, or `model`, a file below `out`, or both; `initial_score` does as `score` by the untrained model. The files below `out` that they name are there, and a file below `out` whose name ends in `.safetensors` is one.")
	RegularFiles    = contract.Rule("Below `checkpoint` and `out` are folders and regular files alone, at most 1000 in each, each of at most 4 GiB.")
	LeavesNoProcess = contract.Rule("When the command ends, so have all processes that it has started.")
	FollowsTheSeed  = contract.Rule("Everything random follows from the `seed` of the job. A training that the experiment calls deterministic leaves the same files and the same metrics every time.")
	TellsOfCanaries = contract.Rule("A job with `one_shot` names a number of `canaries`: as many more clients send a random direction each, and `out/one_shot.json` has their cosines with the released updates.")
	TellsOfReplays  = contract.Rule("A job with `replay` ends with a `step` in `out/result.json`, or has replayed `repeats` steps by its own code: `out/replay.json` states their claim, and `out/replay.safetensors` has their releases.")
	AnswersSteps    = contract.Rule("The command that `step` names answers each request once by its `id`, one JSON object a line on standard output, leaves finite tensors in the file `into`, and ends with its input.")
	StatesItsClaim  = contract.Rule("Its `describe` names the contract, its version, its methods and the claim, whose population are all records or users of the training data.")
	StepsByRequest  = contract.Rule("Equal requests of `sample` and `step` have equal answers. The noise of a step depends on its seed and its round. Another seed gives other noise. A step without `noise` adds none.")
)

// ruleOf returns the rule broken by an error of a command's directory or processes; the zero Rule
// if none.
func ruleOf(err error) contracts.Rule {
	if rule := contracts.RuleOf(err); rule.Number > 0 {
		return rule
	}
	if _, ok := errors.AsType[*childprocess.LeftBehindError](err); ok {
		return LeavesNoProcess
	}
	if _, ok := errors.AsType[*childprocess.LongLineError](err); ok {
		return MetricLines
	}
	if _, ok := errors.AsType[*childprocess.FileError](err); ok {
		return RegularFiles
	}
	return contracts.Rule{}
}
