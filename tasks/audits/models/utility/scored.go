package utility

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

type ScoredParams struct {
	// Words is the approximate number of words, or bytes, to predict: examples spread over the test part.
	Words int                  `json:"words"`
	Model external.ModelParams `json:"model"`
}

// scoredWords is the number of predicted words. Each is a separate text for an external model.
const scoredWords = 5000

// Scored predicts examples of the test part by an external model: texts word by word after the preceding
// words, at the byte level byte by byte, and the labels of all images. Inputs: "model": external/train;
// "data": datasets/encode. Its metrics are partMetrics, of ordinary words without ends of examples.
var Scored = tasks.Kind{Name: "evaluation/scores", Version: 2, Class: tasks.Compute, Command: true, Run: audits.Measuring(predictByScores)}

func predictByScores(ctx context.Context, t *tasks.Task, p *ScoredParams) (any, error) {
	if p.Model.OfImages() {
		model, err := (&UserShare{Model: &p.Model}).openExternal(ctx, t)
		if err != nil {
			return nil, err
		}
		defer model.release()
		return (&PartParams{Data: population.Test, Shares: 1}).evaluate(ctx, t, model.Evaluate)
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, DataInput)
	if err != nil {
		return nil, err
	}
	examples, err := p.examples(ctx, t)
	if err != nil {
		return nil, err
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	predict := predictWords
	if vocabulary.Level() == text.ByteLevel {
		predict = predictBytes
	}
	if len(examples) > 0 {
		if err := model.CheckTotal(ctx, vocabulary, examples[0][:len(examples[0])/2]); err != nil {
			return nil, err
		}
	}
	return predict(ctx, model, vocabulary, examples)
}

// examples returns the words of evenly spread examples of the test part.
func (p *ScoredParams) examples(ctx context.Context, t *tasks.Task) (list [][]int32, err error) {
	part, err := population.OpenPart(ctx, t, DataInput, population.Test)
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
		list = append(list, external.Words(sentence))
	}
	return list, nil
}

// predictWords predicts ordinary words, each after the preceding ones.
func predictWords(ctx context.Context, model *external.Model, v *text.Vocabulary, examples [][]int32) (m partMetrics, err error) {
	var pairs []score.Pair
	for _, words := range examples {
		for i, word := range words {
			pair := external.PairOf(v, words[:i], words[i:i+1])
			if isOrdinary(word) && utf8.ValidString(pair.Context) && utf8.ValidString(pair.Continuation) {
				pairs = append(pairs, pair)
			}
		}
	}
	answers, err := model.Answers(ctx, pairs)
	for _, a := range answers {
		m.Counted.Tokens++
		m.Counted.Loss -= a.LogProb
		if a.Greedy {
			m.Counted.Hits++
		}
	}
	return m, err
}

// predictBytes predicts bytes, up to the first that is not UTF-8. The loss is the loss of whole texts,
// correct for any tokens of the model. The recall is known if its tokens are bytes.
func predictBytes(ctx context.Context, model *external.Model, v *text.Vocabulary, examples [][]int32) (m partMetrics, err error) {
	var wholes, characters []score.Pair
	for _, words := range examples {
		text := validPart(v.Text(words))
		if text == "" {
			continue
		}
		wholes = append(wholes, score.Pair{Continuation: text})
		for at, r := range text {
			characters = append(characters, score.Pair{Context: text[:at], Continuation: string(r)})
		}
	}
	answers, err := model.Answers(ctx, slices.Concat(wholes, characters))
	if err != nil {
		return m, err
	}
	for i, pair := range wholes {
		m.Counted.Tokens += int64(len(pair.Continuation))
		m.Counted.Loss -= answers[i].LogProb
	}
	m.countBytes(characters, answers[len(wholes):])
	return m, nil
}

// validPart returns the text before the first byte that is not UTF-8. A text may be cut within a character.
func validPart(text string) string {
	for at := range text {
		if r, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return text[:at]
		}
	}
	return text
}

// Limits of a known recall of bytes.
const (
	// mostApart is the relative difference of losses of whole texts and of their characters: models that
	// compute in 16 bits round.
	mostApart = 0.01
	// maxUnknown is the share of bytes that may or may not be hits: half of it rounds to nothing in a table.
	maxUnknown = 0.001
)

// countBytes counts the bytes that are first guesses, or sets the reason why they are unknown.
func (m *partMetrics) countBytes(characters []score.Pair, answers []score.Answer) {
	loss, unknown := 0.0, int64(0)
	for i, a := range answers {
		loss -= a.LogProb
		switch size := int64(len(characters[i].Continuation)); {
		case a.Greedy:
			m.Counted.Hits += size
		default:
			unknown += size - 1 // all but one may be hits
		}
	}
	switch tokens := float64(m.Counted.Tokens); {
	case math.Abs(loss-m.Counted.Loss) > mostApart*max(m.Counted.Loss, loss):
		m.RecallUnknown = fmt.Sprintf("the program does not predict bytes: its texts cost %.4g nats a byte as wholes, and %.4g character by character", m.Counted.Loss/tokens, loss/tokens)
	case float64(unknown) > maxUnknown*tokens:
		m.RecallUnknown = fmt.Sprintf("%.2g%% of the bytes may be first guesses or not: a program is asked about whole characters, and these have several bytes", 100*float64(unknown)/tokens)
	}
}

// UserShare is the parameters of a task that measures a model, audits.ModelInput, on each user of a share.
type UserShare struct {
	// Share is the number of the share of users, from 0, among Shares.
	Share  int `json:"share"`
	Shares int `json:"shares"`
	// Program, if set, measures its own model, and needs external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
	// Model, if set, is external, and needs population.PartsInput.
	Model *external.ModelParams `json:"model,omitempty"`
	// ByToken asks for UserModel.Scorer, or for UserModel.Score of an external model.
	ByToken bool `json:"by_token,omitempty"`
}

// Users returns the users of the share, of all of that number: from first to before end.
func (p *UserShare) Users(all int) (first, end int) {
	return p.Share * all / p.Shares, (p.Share + 1) * all / p.Shares
}

func (p UserShare) UsesProgram() *clientprograms.Program { return p.Program }

// UserModel is a model for measurements of users.
type UserModel struct {
	Evaluate Evaluator
	// Scorer predicts token by token. It is nil unless UserShare.ByToken is set, and for classifiers,
	// external models and programs.
	Scorer *models.Scorer
	// Score scores texts after other texts by an external model. It is nil unless UserShare.ByToken is set,
	// and for other models.
	Score   func(before, texts [][]int32) (TextScores, error)
	release func()
}

// TextScores are the scores of texts by an external model, which predicts their words without ends. Texts
// that are not UTF-8 are left out.
type TextScores struct {
	Words int64
	// Loss is the sum over the targets, in nats.
	Loss float64
	// LogProbs are the log-probabilities of the model's own tokens; nil if it does not return them.
	LogProbs []float64
}

// MeasureUsers measures the users of a share, and puts a JSON array of the results, in their order, into a
// blob.
func MeasureUsers[T any](ctx context.Context, t *tasks.Task, p *UserShare, blob string, users int, measure func(model *UserModel, user int) (T, error)) error {
	model, err := p.open(ctx, t)
	if err != nil {
		return err
	}
	defer model.release()
	first, end := p.Users(users)
	list := make([]T, 0, end-first)
	for user := first; user < end; user++ {
		measured, err := measure(model, user)
		if err != nil {
			return err
		}
		list = append(list, measured)
		t.Progress(tasks.Progress{Done: int64(user - first + 1), Total: int64(end - first)})
	}
	return t.PutJSON(ctx, blob, list)
}

func (p *UserShare) open(ctx context.Context, t *tasks.Task) (*UserModel, error) {
	switch {
	case p.Model != nil:
		return p.openExternal(ctx, t)
	case p.Program != nil:
		evaluate, client, err := programEvaluator(ctx, t, p.Program)
		if err != nil {
			return nil, err
		}
		return &UserModel{Evaluate: evaluate, release: client.GiveBack}, nil
	}
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	evaluate, scorer, err := evaluatorOf(ctx, t, model, false)
	if !p.ByToken {
		scorer = nil
	}
	return &UserModel{Evaluate: evaluate, Scorer: scorer, release: func() {}}, err
}

// shares is the number of tasks for the test part, or for the users. It affects keys, not results.
const shares = 4

// UserShares adds a task for each share of the users, of the kind scored for an external model and own
// otherwise, and returns them as inputs. The label has two verbs: the number of the share, and the number of
// shares.
func UserShares(b audits.Builder, own, scored tasks.Kind, label string, name func(share int) string, params func(UserShare) any, inputs []tasks.Input) (parts []tasks.Input) {
	kind, p := own, UserShare{Shares: shares, Program: b.Setting().Program, Model: b.Setting().External}
	if p.Model != nil {
		kind = scored
	}
	for p.Share = range shares {
		node := b.Node(kind, fmt.Sprintf(label, p.Share+1, shares), params(p), audits.ByProgram(b, inputs...)...)
		parts = append(parts, tasks.Input{Name: name(p.Share), Key: node})
	}
	return parts
}

// openExternal opens an external model, which classifies images and scores whole texts, if they are UTF-8:
// all their words are targets, and hits are unknown.
func (p *UserShare) openExternal(ctx context.Context, t *tasks.Task) (*UserModel, error) {
	var vocabulary *text.Vocabulary
	if !p.Model.OfImages() {
		var err error
		if vocabulary, err = text.ReadVocabulary(ctx, t, population.PartsInput); err != nil {
			return nil, err
		}
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return nil, err
	}
	m := &UserModel{release: model.Close}
	if p.Model.OfImages() {
		m.Evaluate = classifiedBy(ctx, model, p.Model.Image)
		return m, nil
	}
	score := scoredBy(ctx, model, vocabulary, false)
	m.Evaluate = func(sentences [][]int32) (models.Evaluation, error) {
		found, err := score(nil, sentences)
		return models.Evaluation{All: models.Tally{Tokens: found.Words, Loss: found.Loss}}, err
	}
	if p.ByToken {
		m.Score = scoredBy(ctx, model, vocabulary, true)
	}
	return m, nil
}

// scoredBy scores texts, by tokens if requested and if the model returns them.
func scoredBy(ctx context.Context, model *external.Model, v *text.Vocabulary, byToken bool) func(before, texts [][]int32) (TextScores, error) {
	isText := func(sentence []int32) bool { return utf8.ValidString(v.Text(external.Words(sentence))) }
	return func(before, texts [][]int32) (found TextScores, err error) {
		var pairs []score.Pair
		prefix := external.Joined(v, slices.DeleteFunc(slices.Clone(before), func(s []int32) bool { return !isText(s) }))
		for _, s := range texts {
			if words := external.Words(s); isText(s) {
				pairs = append(pairs, external.PairOf(v, prefix, words))
				found.Words += int64(len(words))
			}
		}
		if byToken {
			tokens, err := model.TokenLogProbs(ctx, pairs)
			if tokens != nil || err != nil {
				found.LogProbs = slices.Concat(tokens...)
				for _, logProb := range found.LogProbs {
					found.Loss -= logProb
				}
				return found, err
			}
		}
		answers, err := model.Answers(ctx, pairs)
		for _, a := range answers {
			found.Loss -= a.LogProb
		}
		return found, err
	}
}

// classifiedBy tallies the predicted labels of images with a label.
func classifiedBy(ctx context.Context, model *external.Model, image images.Shape) Evaluator {
	return func(examples [][]int32) (models.Evaluation, error) {
		found, err := model.Classify(ctx, image, examples)
		var tally models.Tally
		for _, c := range found {
			tally.Tokens++
			tally.Loss -= c.LogProbs[c.Label]
			before := ranking.Place(c.LogProbs, c.Label)
			if before == 0 {
				tally.Hits++
			}
			if before < models.TopGuesses {
				tally.TopHits++
			}
		}
		return models.Evaluation{Counted: tally, All: tally}, err
	}
}
