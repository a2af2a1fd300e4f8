package utility

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// ScoredParams are the parameters of evaluation/scores.
type ScoredParams struct {
	// Words is how many of the test part are predicted, about, or bytes: examples spread over all of it.
	Words int                  `json:"words"`
	Model external.ModelParams `json:"model"`
}

// scoredWords is how many words of the test part are predicted: each is a text of its own that
// somebody else's model scores.
const scoredWords = 5000

// Scored predicts examples of the test part by an external model: texts word by word after those
// before it, at the byte level byte by byte, and of images the labels of all. Inputs: "model":
// external/train; "data": datasets/encode. Its metrics are partMetrics, which count ordinary words and no
// ends of examples.
var Scored = tasks.Kind{Name: "evaluation/scores", Version: 2, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runScored)}

func runScored(ctx context.Context, t *tasks.Task, p *ScoredParams) error {
	if p.Model.OfImages() {
		evaluate, release, err := openExternal(ctx, t, &p.Model)
		if err != nil {
			return err
		}
		defer release()
		return (&PartParams{Data: datasets.Test, Shares: 1}).tally(ctx, t, evaluate)
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, DataInput)
	if err != nil {
		return err
	}
	examples, err := p.examples(ctx, t)
	if err != nil {
		return err
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return err
	}
	defer model.Close()
	predict := predictWords
	if vocabulary.Level() == datasets.ByteLevel {
		predict = predictBytes
	}
	if len(examples) > 0 {
		if err := model.CheckTotal(ctx, vocabulary, examples[0][:len(examples[0])/2]); err != nil {
			return err
		}
	}
	m, err := predict(ctx, model, vocabulary, examples)
	if err != nil {
		return err
	}
	return t.SetMetrics(m)
}

// examples are the words of evenly spread examples of the test part.
func (p *ScoredParams) examples(ctx context.Context, t *tasks.Task) (list [][]int32, err error) {
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
		list = append(list, external.Words(sentence))
	}
	return list, nil
}

// predictWords predicts the ordinary words of examples, each after those before it.
func predictWords(ctx context.Context, model *external.Model, v *datasets.Vocabulary, examples [][]int32) (m partMetrics, err error) {
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

// predictBytes predicts the bytes of examples, up to the first that is not UTF-8. The loss is that of whole
// texts, which is right for any tokens of the model. The recall is known if the model's tokens are bytes.
func predictBytes(ctx context.Context, model *external.Model, v *datasets.Vocabulary, examples [][]int32) (m partMetrics, err error) {
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

// validPart is the beginning of a text up to the first byte that is not UTF-8: a text may be cut within a
// character.
func validPart(text string) string {
	for at := range text {
		if r, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return text[:at]
		}
	}
	return text
}

// Limits of a recall of bytes that is known.
const (
	// mostApart is by how much the losses of whole texts and of their characters may differ, as a share: models
	// that compute in 16 bits round.
	mostApart = 0.01
	// mostUnknown is the share of bytes that may be hits or not: half of it rounds to nothing in a table.
	mostUnknown = 0.001
)

// countBytes counts the bytes that are the model's first guess, or says why they are not known.
func (m *partMetrics) countBytes(characters []score.Pair, answers []score.Answer) {
	loss, unknown := 0.0, int64(0)
	for i, a := range answers {
		loss -= a.LogProb
		switch size := int64(len(characters[i].Continuation)); {
		case a.Greedy:
			m.Counted.Hits += size
		default:
			unknown += size - 1 // all but one may be
		}
	}
	switch tokens := float64(m.Counted.Tokens); {
	case math.Abs(loss-m.Counted.Loss) > mostApart*max(m.Counted.Loss, loss):
		m.RecallUnknown = fmt.Sprintf("the program does not predict bytes: its texts cost %.4g nats a byte as wholes, and %.4g character by character", m.Counted.Loss/tokens, loss/tokens)
	case float64(unknown) > mostUnknown*tokens:
		m.RecallUnknown = fmt.Sprintf("%.2g%% of the bytes may be first guesses or not: a program is asked about whole characters, and these have several bytes", 100*float64(unknown)/tokens)
	}
}
