package external

import (
	"context"
	"fmt"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/score"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// ModelParams say how the model of a node external/train is asked. They are a part of parameters.
type ModelParams struct {
	// Code is the archive with the code of the scoring command, zero for none.
	Code storage.Digest `json:"code,omitzero"`
	// Image is the shape of the images that it classifies; zero of models of texts.
	Image datasets.Image `json:"image,omitzero"`
}

// OfImages reports whether it classifies images.
func (p *ModelParams) OfImages() bool { return p.Image != (datasets.Image{}) }

// Which of the two models a command scores by.
type Which string

// The models of a training.
const (
	Trained Which = "trained"
	Initial Which = "untrained"
)

// command is the line of result.json.
func (w Which) command(r *Result) (field, line string) {
	if w == Initial {
		return "initial_score", r.Initial
	}
	return "score", r.Score
}

// Model is a model that a command scores texts by. It is closed at the end.
type Model struct {
	client    *score.Client
	workspace *childprocess.Workspace
	which     Which
	alike     constancy
}

// Open starts the command that the training at the input has named, in a directory with the code
// and the files that the training left below out.
func (p *ModelParams) Open(ctx context.Context, t *tasks.Task, input string, which Which) (*Model, error) {
	line, err := scoringLine(ctx, t, input, which)
	if err != nil {
		return nil, err
	}
	terms, err := childprocess.DecodeTerms(t.Terms)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	w, err := childprocess.NewWorkspace()
	if err != nil {
		return nil, err
	}
	m := &Model{workspace: w, which: which}
	if err := m.furnish(ctx, t, input, p.Code); err != nil {
		m.workspace.Remove()
		return nil, err
	}
	m.client, err = startScorer(ctx, line, w, &terms, t.Writable(), t.Variables())
	if err != nil {
		m.workspace.Remove()
		return nil, Asked(ctx, err)
	}
	if !m.client.Description.Deterministic {
		t.MayDiffer()
	}
	return m, nil
}

// startScorer starts a command that scores, in a directory that it may write to beside others.
func startScorer(ctx context.Context, line string, w *childprocess.Workspace, terms *childprocess.Terms, write, set []string) (*score.Client, error) {
	return score.Start(ctx, score.Options{Name: line, Concurrency: concurrency, Command: childprocess.Command{
		Args: childprocess.Shell(line), Dir: w.Path(), Terms: *terms, Write: append([]string{w.Path()}, write...), Set: set,
	}})
}

// concurrency is how many requests are under way at a time, and batch how many pairs each has.
// They show in no result of a deterministic command.
const (
	concurrency = 2
	batch       = 64
)

// scoringLine is the command that a training has named.
func scoringLine(ctx context.Context, t *tasks.Task, input string, which Which) (string, error) {
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

// furnish makes the directory that the command finds.
func (m *Model) furnish(ctx context.Context, t *tasks.Task, input string, code storage.Digest) error {
	if err := codeOf(t, code).Unpack(ctx, m.workspace); err != nil {
		return err
	}
	if err := m.workspace.Folder(outFolder); err != nil {
		return err
	}
	return putLeft(ctx, t, m.workspace, input)
}

// putLeft writes the files that a training has left below out.
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

// Answers scores pairs, and returns an answer for each, in their order.
func (m *Model) Answers(ctx context.Context, pairs []score.Pair) ([]score.Answer, error) {
	answers, err := m.client.LogLikelihoods(ctx, pairs, batch)
	if err != nil {
		return nil, Asked(ctx, err)
	}
	return answers, m.tellsApart(pairs, answers)
}

// TokenLogProbs are the log-probabilities of the model's own tokens of each continuation; nil if the command
// has no such method.
func (m *Model) TokenLogProbs(ctx context.Context, pairs []score.Pair) ([][]float64, error) {
	if !m.client.Description.Has(score.TokenLogProbs) {
		return nil, nil
	}
	tokens, err := m.client.TokenLogProbs(ctx, pairs, batch)
	if err != nil {
		return nil, Asked(ctx, err)
	}
	answers := make([]score.Answer, len(tokens))
	for i, logProbs := range tokens {
		for _, logProb := range logProbs {
			answers[i].LogProb += logProb
		}
	}
	return tokens, m.tellsApart(pairs, answers)
}

// tellsApart is an error if the trained model has scored many different texts alike. Another may.
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
func (m *Model) CheckTotal(ctx context.Context, v *datasets.Vocabulary, prefix []int32) error {
	pairs := Following(v, prefix)
	answers, err := m.client.LogLikelihoods(ctx, pairs, batch) // words may be alike where texts are not
	if err != nil {
		return Asked(ctx, err)
	}
	if err := score.CheckTotal(pairs, answers); err != nil {
		return tasks.Permanent(fmt.Errorf("command %q: %w", m.client.Name(), err))
	}
	return nil
}

// fewAlike is the number of different texts from which equal scores are no chance.
const fewAlike = 32

// constancy counts the different texts that a model has scored, as long as it scores all alike.
type constancy struct {
	score  float64
	texts  map[score.Pair]bool
	varies bool
}

// add returns how many different texts have had one score so far, 0 if scores differ.
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

// ShapeOf is the shape of images as they are asked about.
func ShapeOf(m datasets.Image) score.Shape {
	return score.Shape{Height: m.Height, Width: m.Width, Channels: m.Channels}
}

// Classified is a model's answer for an image that has a label.
type Classified struct {
	Label int
	// LogProbs are those of all classes, in their order.
	LogProbs []float64
}

// Classify asks about sentences of images, as a population has them. Those without a label are left
// out.
func (m *Model) Classify(ctx context.Context, image datasets.Image, sentences [][]int32) ([]Classified, error) {
	var list []Classified
	var images [][]byte
	for _, s := range sentences {
		if label, pixels := datasets.ImageOf(s); label != datasets.NoLabel {
			list, images = append(list, Classified{Label: label}), append(images, pixels)
		}
	}
	found, err := m.client.Classify(ctx, ShapeOf(image), images, image.Classes, batch)
	if err != nil {
		return nil, Asked(ctx, err)
	}
	for i := range list {
		list[i].LogProbs = found[i]
	}
	return list, nil
}

// Costs are the log-perplexities of suffixes after one prefix, in nats.
func (m *Model) Costs(ctx context.Context, v *datasets.Vocabulary, prefix []int32, suffixes [][]int32) ([]float64, error) {
	pairs := make([]score.Pair, len(suffixes))
	for i, suffix := range suffixes {
		pairs[i] = PairOf(v, prefix, suffix)
	}
	answers, err := m.Answers(ctx, pairs)
	if err != nil {
		return nil, err
	}
	costs := make([]float64, len(answers))
	for i, a := range answers {
		costs[i] = -a.LogProb
	}
	return costs, nil
}

// Asked makes an error of a command permanent unless another try may mend it.
func Asked(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || contracts.Retryable(err) {
		return err
	}
	return tasks.Permanent(err)
}

// Close ends the command.
func (m *Model) Close() {
	_ = m.client.Close() // the question was answered
	m.workspace.Remove()
}

// ReadResult reads a training's description of its model.
func ReadResult(ctx context.Context, t *tasks.Task, input string) (*Result, error) {
	r := new(Result)
	err := t.InputJSON(ctx, input, ResultBlob, r)
	return r, err
}
