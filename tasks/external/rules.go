package external

import (
	"errors"
	"fmt"

	"coalmine/internal/childprocess"
	"coalmine/internal/workspace"
)

// Rule is a sentence of the contract, docs/contracts/train.md, by its number there.
type Rule int

// The rules of the contract.
const (
	InItsDirectory Rule = iota + 1
	InputsStay
	WholeCheckpoint
	GoesOn
	MetricLines
	EndsWhenAsked
	SaysHowItEnded
	WholeResult
	NamesItsModel
	RegularFiles
	LeavesNoProcess
	FollowsTheSeed
)

// rules are the sentences of the page, word for word.
var rules = map[Rule]string{
	InItsDirectory:  "The command starts in a directory of its own. It writes below `checkpoint`, `out` and the directory that `TMPDIR` names, and nowhere else.",
	InputsStay:      "What it finds below `in`, and the code, it leaves as they are.",
	WholeCheckpoint: "The files below `checkpoint` are whole and fit each other at any time: a new one is written elsewhere and renamed. They may be taken away at any moment, and the process with them.",
	GoesOn:          "A command that finds files below `checkpoint` goes on from there. It ends with the model that it would have had without the interruption, or one as good.",
	MetricLines:     "A line of `out/metrics.jsonl` is a JSON object with a `round`, a whole number from 1, and finite numbers. A line about a round takes the place of earlier ones about it.",
	EndsWhenAsked:   "Asked to end by SIGTERM, the command writes its checkpoint and ends within 20 seconds.",
	SaysHowItEnded:  "Exit status 0 says that the training is over, 75 that it shall go on later. Any other up to 128 says that it has failed for good.",
	WholeResult:     "When it ends with exit status 0, `out/result.json` is a JSON object of texts.",
	NamesItsModel:   "That object has `score`, a command line that scores texts by the model as the contract score says, or `model`, a file below `out`, or both; `initial_score` does as `score` by the untrained model.",
	RegularFiles:    "Below `checkpoint` and `out` are folders and regular files alone, at most 1000 in each, each of at most 4 GiB.",
	LeavesNoProcess: "When the command ends, so have all processes that it has started.",
	FollowsTheSeed:  "Everything random follows from the `seed` of the job. A training that the experiment calls deterministic leaves the same files and the same metrics every time.",
}

// String is the sentence.
func (r Rule) String() string { return rules[r] }

// Violation is what a command did against a rule.
type Violation struct {
	Rule Rule
	What string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s (rule %d of the contract train)", v.What, v.Rule)
}

func (r Rule) broken(format string, args ...any) error {
	return &Violation{r, fmt.Sprintf(format, args...)}
}

// ruleOf is the rule that an error of a command's directory or processes is about; 0 if it is none.
func ruleOf(err error) Rule {
	if v, ok := errors.AsType[*Violation](err); ok {
		return v.Rule
	}
	if _, ok := errors.AsType[*childprocess.LeftBehindError](err); ok {
		return LeavesNoProcess
	}
	if _, ok := errors.AsType[*workspace.LongLineError](err); ok {
		return MetricLines
	}
	_, other := errors.AsType[*workspace.NotRegularError](err)
	_, many := errors.AsType[*workspace.TooManyFilesError](err)
	if _, large := errors.AsType[*workspace.TooLargeError](err); other || many || large {
		return RegularFiles
	}
	return 0
}
