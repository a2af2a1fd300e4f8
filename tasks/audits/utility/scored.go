package utility

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// ScoredParams are the parameters of evaluation/scores.
type ScoredParams struct {
	// Words is how many of the test part are predicted, about: examples spread over all of it.
	Words int                  `json:"words"`
	Model external.ModelParams `json:"model"`
}

// scoredWords is how many words of the test part are predicted: each is a text of its own that
// somebody else's model scores.
const scoredWords = 5000

// Scored predicts examples of the test part by a model that is not ours, word by word after those
// before it, at the byte level character by character. Inputs: "model": external/train; "data":
// datasets/encode. Its metrics are a models.Evaluation, without the ends of examples. Of images it
// predicts the labels of all.
var Scored = tasks.Kind{Name: "evaluation/scores", Version: 1, Class: tasks.Compute, Command: true, Run: runScored}

func runScored(ctx context.Context, t *tasks.Task) error {
	var p ScoredParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Model.OfImages() {
		return runClassified(ctx, t, &p)
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, DataInput)
	if err != nil {
		return err
	}
	targets, err := p.targets(ctx, t, vocabulary)
	if err != nil {
		return err
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return err
	}
	defer model.Close()
	evaluation, err := evaluateTargets(ctx, model, targets)
	if err != nil {
		return err
	}
	return t.SetMetrics(evaluation)
}

// target is something that is predicted: the continuation of a pair, of so many tokens.
type target struct {
	pair     score.Pair
	tokens   int64
	ordinary bool
}

// targets are those of every so many examples of the test part.
func (p *ScoredParams) targets(ctx context.Context, t *tasks.Task, v *datasets.Vocabulary) (list []target, err error) {
	part, err := datasets.OpenPart(ctx, t, DataInput, datasets.Test)
	if err != nil {
		return nil, err
	}
	words := 0
	for u := range part.Users() {
		words += part.Words(u)
	}
	apart := max(1, (words+p.Words-1)/p.Words)
	for i := 0; i < part.Records(); i += apart {
		sentence, err := part.ReadRecord(ctx, i)
		if err != nil {
			return nil, err
		}
		list = append(list, targetsOf(v, external.Words(sentence))...)
	}
	return list, nil
}

// targetsOf are the words of an example, or its characters.
func targetsOf(v *datasets.Vocabulary, words []int32) (list []target) {
	for from := 0; from < len(words); {
		end := from + 1
		if v.Level() == datasets.ByteLevel {
			end = from + characterOf(v.Text(words[from:]))
		}
		pair := external.PairOf(v, words[:from], words[from:end])
		if utf8.ValidString(pair.Context) && utf8.ValidString(pair.Continuation) {
			list = append(list, target{pair, int64(end - from), isOrdinary(words[from])})
		}
		from = end
	}
	return list
}

// characterOf is the length in bytes of the first character of a text, with the spaces before it,
// which belong to the continuation.
func characterOf(text string) int {
	spaces := len(text) - len(strings.TrimLeft(text, " "))
	_, size := utf8.DecodeRuneInString(text[spaces:])
	return spaces + size
}

// evaluateTargets tallies them.
func evaluateTargets(ctx context.Context, model *external.Model, targets []target) (e models.Evaluation, err error) {
	pairs := make([]score.Pair, len(targets))
	for i := range targets {
		pairs[i] = targets[i].pair
	}
	answers, err := model.Answers(ctx, pairs)
	if err != nil {
		return e, err
	}
	for i, x := range targets {
		tally := models.Tally{Tokens: x.tokens, Loss: -answers[i].LogProb}
		if answers[i].Greedy {
			tally.Hits = x.tokens
		}
		e.All = e.All.Add(tally)
		if x.ordinary {
			e.Counted = e.Counted.Add(tally)
		}
	}
	return e, nil
}

// compileScored is Compile for a model that is not ours.
func (f *Fields) compileScored(b audits.Builder, round int) storage.Key {
	scores := b.Node(Scored, fmt.Sprintf("utility by scores after %d", round), ScoredParams{Words: scoredWords, Model: *b.Setting().External},
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: DataInput, Key: b.Parts()})
	return b.Node(Sum, fmt.Sprintf("utility after %d", round), SumParams{Shares: 1, Top: f.RecallAt5}, tasks.Input{Name: tasks.PartInput(0), Key: scores})
}
