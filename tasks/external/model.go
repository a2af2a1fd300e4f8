package external

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/lists"
	"coalmine/internal/score"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
)

// ModelParams describes the scoring of the model of an external/train node. It is part of
// parameters.
type ModelParams struct {
	// Code is the archive with the code of the scoring command, zero for none.
	Code storage.Digest `json:"code,omitzero"`
	// Image is the shape of the classified images; zero for models of texts.
	Image images.Shape `json:"image,omitzero"`
}

func (p *ModelParams) OfImages() bool { return p.Image != (images.Shape{}) }

// ModelChoice names one of the two models of a training.
type ModelChoice string

// The models of a training.
const (
	Trained ModelChoice = "trained"
	Initial ModelChoice = "untrained"
)

// command returns the field and the command line of result.json.
func (w ModelChoice) command(r *Result) (field, line string) {
	if w == Initial {
		return "initial_score", r.Initial
	}
	return "score", r.Score
}

// Model is a model scored by a command. It must be closed.
type Model struct {
	client    *score.Client
	workspace *childprocess.Workspace
	which     ModelChoice
	alike     constancy
}

// Open starts the scoring command named by the training at the input, in a directory with the code
// and the training's files below out.
func (p *ModelParams) Open(ctx context.Context, t *tasks.Task, input string, which ModelChoice) (*Model, error) {
	line, err := scoringLine(ctx, t, input, which)
	if err != nil {
		return nil, err
	}
	w, terms, err := workplace(t)
	if err != nil {
		return nil, err
	}
	m := &Model{workspace: w, which: which}
	if err = codeOf(t, p.Code).Unpack(ctx, w); err == nil {
		err = w.Folder(outFolder)
	}
	if err == nil {
		err = putLeft(ctx, t, w, input)
	}
	if err == nil {
		m.client, err = startScorer(ctx, line, w, &terms, t.Writable(), t.Variables())
	}
	if err != nil {
		w.Remove()
		return nil, startError(ctx, err)
	}
	if !m.client.Description.Deterministic {
		t.DeclareNondeterministic()
	}
	return m, nil
}

// startScorer starts a scoring command in a directory that it may write to, in addition to others.
func startScorer(ctx context.Context, line string, w *childprocess.Workspace, terms *childprocess.Terms, write, set []string) (*score.Client, error) {
	return score.Start(ctx, score.Options{Name: line, Concurrency: concurrency, Command: childprocess.Command{
		Args: childprocess.Shell(line), Dir: w.Path(), Terms: *terms, Write: append([]string{w.Path()}, write...), Set: set,
	}})
}

// concurrency is the number of concurrent requests, and batch the number of pairs per request. They
// do not affect the results of a deterministic command.
const (
	concurrency = 2
	batch       = 64
)

// scoringLine returns the scoring command named by a training.
func scoringLine(ctx context.Context, t *tasks.Task, input string, which ModelChoice) (string, error) {
	result, err := ReadResult(ctx, t, input)
	if err != nil {
		return "", err
	}
	field, line := which.command(result)
	if strings.TrimSpace(line) == "" {
		return "", tasks.Permanent(fmt.Errorf("the %s of the training names no %s, a command that scores texts by the %s model: expected one, as the contract train says (rule %d)", resultFile, field, which, NamesItsModel.Number))
	}
	return line, nil
}

// putLeft writes the training's files below out.
func putLeft(ctx context.Context, t *tasks.Task, w *childprocess.Workspace, input string) error {
	names, err := t.BlobNames(ctx, input)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, outFolder+"/") {
			continue
		}
		data, err := t.Blob(ctx, input, name)
		if err != nil {
			return err
		}
		if err := w.Put(name, data); err != nil {
			return err
		}
	}
	return nil
}

// Answers scores pairs, and returns their answers in order.
func (m *Model) Answers(ctx context.Context, pairs []score.Pair) ([]score.Answer, error) {
	answers, err := m.client.LogLikelihoods(ctx, pairs, batch)
	if err != nil {
		return nil, CommandError(ctx, err)
	}
	return answers, m.tellsApart(pairs, answers)
}

// TokenLogProbs returns the log-probabilities of the model's own tokens of each continuation; nil
// if the command lacks the method.
func (m *Model) TokenLogProbs(ctx context.Context, pairs []score.Pair) ([][]float64, error) {
	if !m.client.Description.Has(score.TokenLogProbs) {
		return nil, nil
	}
	tokens, err := m.client.TokenLogProbs(ctx, pairs, batch)
	if err != nil {
		return nil, CommandError(ctx, err)
	}
	answers := make([]score.Answer, len(tokens))
	for i, logProbs := range tokens {
		for _, logProb := range logProbs {
			answers[i].LogProb += logProb
		}
	}
	return tokens, m.tellsApart(pairs, answers)
}

// tellsApart returns an error if the trained model has given many different texts the same score.
// The untrained model may.
func (m *Model) tellsApart(pairs []score.Pair, answers []score.Answer) error {
	if m.which != Trained {
		return nil
	}
	if n := m.alike.add(pairs, answers); n >= fewAlike {
		return tasks.Permanent(fmt.Errorf("the command %q scores all of %d different texts alike, with the log-probability %g. Expected scores that tell texts apart; a constant often stands for an error", m.client.Name(), n, answers[0].LogProb))
	}
	return nil
}

// CheckTotal returns an error if the words after a prefix have probabilities that add up to more than 1.
func (m *Model) CheckTotal(ctx context.Context, v *text.Vocabulary, prefix []int32) error {
	pairs := Following(v, prefix)
	answers, err := m.client.LogLikelihoods(ctx, pairs, batch) // words may have equal scores
	if err != nil {
		return CommandError(ctx, err)
	}
	if err := score.CheckTotal(pairs, answers); err != nil {
		return tasks.Permanent(fmt.Errorf("command %q: %w", m.client.Name(), err))
	}
	return nil
}

// fewAlike is the number of different texts at which equal scores are no coincidence.
const fewAlike = 32

// constancy counts the different texts scored by a model while all scores are equal.
type constancy struct {
	score  float64
	texts  map[score.Pair]bool
	varies bool
}

// add returns the number of different texts with the same score so far, 0 if scores differ.
func (c *constancy) add(pairs []score.Pair, answers []score.Answer) int {
	for i := range answers {
		switch {
		case c.varies:
			return 0
		case c.texts == nil:
			c.texts, c.score = map[score.Pair]bool{}, answers[i].LogProb
		case answers[i].LogProb != c.score:
			c.varies, c.texts = true, nil
			return 0
		}
		c.texts[pairs[i]] = true
	}
	return len(c.texts)
}

func ShapeOf(m images.Shape) score.Shape {
	return score.Shape{Height: m.Height, Width: m.Width, Channels: m.Channels}
}

// Classified is a model's answer for a labelled image.
type Classified struct {
	Label int
	// LogProbs holds the log-probabilities of all classes, in order.
	LogProbs []float64
}

// Classify classifies the images of a population's sentences. It skips images without a label.
func (m *Model) Classify(ctx context.Context, image images.Shape, sentences [][]int32) ([]Classified, error) {
	var list []Classified
	var pictures [][]byte
	for _, s := range sentences {
		if label, pixels := images.OfSentence(s); label != images.NoLabel {
			list, pictures = append(list, Classified{Label: label}), append(pictures, pixels)
		}
	}
	found, err := m.client.Classify(ctx, ShapeOf(image), pictures, image.Classes, batch)
	if err != nil {
		return nil, CommandError(ctx, err)
	}
	for i := range list {
		list[i].LogProbs = found[i]
	}
	return list, nil
}

// Costs returns the log-perplexities of suffixes after one prefix, in nats.
func (m *Model) Costs(ctx context.Context, v *text.Vocabulary, prefix []int32, suffixes [][]int32) ([]float64, error) {
	pairs := lists.Map(suffixes, func(suffix []int32) score.Pair { return PairOf(v, prefix, suffix) })
	answers, err := m.Answers(ctx, pairs)
	return CostsOf(answers), err
}

// CostsOf returns the log-perplexities of scored texts, in nats.
func CostsOf(answers []score.Answer) []float64 {
	return lists.Map(answers, func(a score.Answer) float64 { return -a.LogProb })
}

// CommandError makes an error of a command permanent unless a retry may succeed.
func CommandError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || contracts.Retryable(err) {
		return err
	}
	return tasks.Permanent(err)
}

// startError makes an error permanent if the command ended by itself before it described itself, for example
// because a module is missing: another start would end the same way.
func startError(ctx context.Context, err error) error {
	if contracts.Exit(err) != "" && ctx.Err() == nil {
		return tasks.Permanent(err)
	}
	return CommandError(ctx, err)
}

// Close ends the command.
func (m *Model) Close() {
	_ = m.client.Close() // the answers are complete
	m.workspace.Remove()
}

// ReadResult reads a training's description of its model.
func ReadResult(ctx context.Context, t *tasks.Task, input string) (*Result, error) {
	r := new(Result)
	err := t.InputJSON(ctx, input, ResultBlob, r)
	return r, err
}

// PairOf returns the texts of a prefix and its continuation. A pair of bytes need not be UTF-8.
func PairOf(v *text.Vocabulary, prefix, suffix []int32) score.Pair {
	context, continuation := v.Texts(prefix, suffix)
	return score.Pair{Context: context, Continuation: continuation}
}

// Joined joins texts into one, without begin and end tokens; at the byte level, one per line.
func Joined(v *text.Vocabulary, texts [][]int32) (all []int32) {
	for _, content := range texts {
		all = append(all, Words(content)...)
		if v.Level() == text.ByteLevel {
			all = append(all, text.FirstWord+'\n')
		}
	}
	return all
}

// maxFollowing is the number of words in the check of total probability.
const maxFollowing = 256

// FollowingTokens returns the first ordinary tokens of a vocabulary; for words, the most frequent
// ones.
func FollowingTokens(v *text.Vocabulary) []int32 {
	return lists.Make(min(v.Ordinary(), maxFollowing), func(i int) int32 { return int32(text.FirstWord + i) })
}

// Following returns pairs of a prefix and each of these tokens, except tokens that are not texts.
func Following(v *text.Vocabulary, prefix []int32) (pairs []score.Pair) {
	for _, token := range FollowingTokens(v) {
		if pair := PairOf(v, prefix, []int32{token}); utf8.ValidString(pair.Context) && utf8.ValidString(pair.Continuation) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}
