// Package servetest serves exported models for tests of clients: by a command in the contract "score",
// which is the test's program, and by an endpoint in the OpenAI completions form:
//
//	func TestMain(m *testing.M) { os.Exit(servetest.Main(m)) }
//
//	client, err := score.Start(ctx, score.Options{Command: servetest.Command(t, model)})
//
//	endpoint := servetest.ServeCompletions(t, model).URL
package servetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/control"
)

// serve is the argument that makes a test's program serve a model.
const serve = "serve-score"

// Main runs tests, or serves a model if the program was started by Command. It returns the exit status.
func Main(m *testing.M) int {
	if len(os.Args) < 3 || os.Args[1] != serve {
		return m.Run()
	}
	if err := serveFile(os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Command returns a command that serves a file of coalmine export, of words, bytes or classes of images,
// until its input ends.
func Command(tb testing.TB, model []byte) childprocess.Command {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "model.safetensors")
	must.Do(tb, os.WriteFile(path, model, 0o600))
	return childprocess.Command{Args: []string{os.Args[0], serve, path}}
}

// Untrained returns a file of coalmine export: a small model of words with untrained weights.
func Untrained(tb testing.TB, cell models.Kind, words []string) []byte {
	tb.Helper()
	words = append(text.Specials(), words...)
	language := must.Get(models.New(models.Config{Kind: cell, Vocabulary: len(words), Embedding: 4, Units: 6}))(tb)
	vocabulary := must.Get(json.Marshal(words))(tb)
	model := must.Get(checkpoints.Encode(language, language.Init(seeds.Stream(3, seeds.Weights)), map[string]string{"vocabulary": string(vocabulary)}))(tb)
	return model
}

// longestInput is the maximum number of words or bytes of an input.
const longestInput = 2000

type request struct {
	ID        int64       `json:"id"`
	Method    string      `json:"method"`
	Pairs     [][2]string `json:"pairs"`
	Prompts   []string    `json:"prompts"`
	Until     []string    `json:"until"`
	MaxTokens int         `json:"max_tokens"`
	Images    struct {
		Shape  [4]int `json:"shape"`
		Pixels []byte `json:"pixels"`
	} `json:"images"`
}

type server struct {
	name       string
	classifier models.Classifier // for images; the fields below are then zero
	scorer     *models.Scorer
	vocabulary *text.Vocabulary
}

func serveFile(path string, in io.Reader, out io.Writer) error {
	model, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoded, err := checkpoints.Decode(model)
	if err != nil {
		return err
	}
	s := server{name: storage.DigestOf(model).String()}
	if network, ok := decoded.Network.(models.Classifying); ok {
		s.classifier = network.NewClassifier(decoded.Params)
		return s.converse(in, out)
	}
	words, err := control.ExportedVocabulary(model)
	if err != nil {
		return err
	}
	s.vocabulary = &text.Vocabulary{Words: words}
	if s.scorer, err = decoded.NewScorer(); err != nil {
		return err
	}
	return s.converse(in, out)
}

// converse reads available requests in pairs, and answers each pair in reverse order.
func (s *server) converse(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // the command ends with its input
		}
		asked := [][]byte{line}
		if lines.Buffered() > 0 {
			if line, err := lines.ReadBytes('\n'); err == nil {
				asked = append(asked, line)
			}
		}
		slices.Reverse(asked)
		for _, line := range asked {
			if _, err := fmt.Fprintf(out, "%s\n", s.answer(line)); err != nil {
				return err
			}
		}
	}
}

func (s *server) answer(line []byte) []byte {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return []byte(err.Error()) // an invalid answer ends the test
	}
	answer := map[string]any{"id": r.ID}
	result, err := s.do(&r)
	if answer["result"] = result; err != nil {
		answer = map[string]any{"id": r.ID, "error": map[string]any{"message": err.Error()}}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

func (s *server) do(r *request) (any, error) {
	switch {
	case s.classifier == nil: // below
	case r.Method == "describe":
		return map[string]any{"contract": "coalmine/score", "version": 1, "model": s.name, "longest_input": 0, "deterministic": true, "methods": []string{"classify"}}, nil
	case r.Method == "classify":
		return s.classify(r)
	default:
		return nil, fmt.Errorf("no method %q", r.Method)
	}
	switch r.Method {
	case "describe":
		return map[string]any{
			"contract": "coalmine/score", "version": 1, "model": s.name, "longest_input": longestInput, "deterministic": true,
			"methods": []string{"loglikelihood", "token_logprobs", "generate_until"},
		}, nil
	case "loglikelihood":
		return eachOf(r.Pairs, s.logLikelihood)
	case "token_logprobs":
		return eachOf(r.Pairs, func(pair [2]string) ([]float64, error) {
			logProbs, _, err := s.score(pair)
			return logProbs, err
		})
	case "generate_until":
		return eachOf(r.Prompts, func(prompt string) (string, error) { return s.generate(prompt, r.Until, r.MaxTokens) })
	}
	return nil, fmt.Errorf("no method %q", r.Method)
}

// classify predicts the labels of images, as logarithms of probabilities.
func (s *server) classify(r *request) (logProbs [][]float64, err error) {
	n := r.Images.Shape[0]
	var examples [][]int32
	for i := range n {
		size := len(r.Images.Pixels) / n
		examples = append(examples, images.Sentence(images.NoLabel, r.Images.Pixels[i*size:(i+1)*size]))
	}
	predictions, err := s.classifier.Classify(examples)
	for _, p := range predictions {
		sum, row := 0.0, make([]float64, len(p.Logits))
		for _, logit := range p.Logits {
			sum += math.Exp(float64(logit))
		}
		for class, logit := range p.Logits {
			row[class] = min(0, float64(logit)-math.Log(sum))
		}
		logProbs = append(logProbs, row)
	}
	return logProbs, err
}

func eachOf[A, R any](list []A, do func(A) (R, error)) (results []R, err error) {
	for _, a := range list {
		result, err := do(a)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

func (s *server) logLikelihood(pair [2]string) ([2]any, error) {
	logProbs, greedy, err := s.score(pair)
	sum := 0.0
	for _, p := range logProbs {
		sum += p
	}
	return [2]any{sum, greedy}, err
}

// score returns the log-probabilities of the continuation's tokens.
func (s *server) score(pair [2]string) (logProbs []float64, greedy bool, err error) {
	context, err := s.tokens(pair[0])
	if err != nil {
		return nil, false, err
	}
	continuation, err := s.tokens(pair[1])
	if err != nil {
		return nil, false, err
	}
	if n := len(context) + len(continuation); n > longestInput {
		return nil, false, fmt.Errorf("%d tokens; the model reads at most %d", n, longestInput)
	}
	states, row, err := s.after(context)
	greedy = true
	for _, token := range continuation {
		if err != nil {
			return nil, false, err
		}
		logProbs = append(logProbs, min(0, float64(row[token])))
		greedy = greedy && token == best(row)
		err = errors.Join(s.scorer.Step(states, []int32{token}), s.scorer.LogProbRows(states, row))
	}
	return logProbs, greedy, err
}

// after returns the state of the model after a text, and the log-probabilities of the next token.
func (s *server) after(context []int32) (*models.States, []float32, error) {
	states, row := s.scorer.Start(1), make([]float32, s.vocabulary.Size())
	var err error
	for _, token := range append([]int32{text.Begin}, context...) {
		err = errors.Join(err, s.scorer.Step(states, []int32{token}))
	}
	return states, row, errors.Join(err, s.scorer.LogProbRows(states, row))
}

func best(row []float32) int32 { return int32(slices.Index(row, slices.Max(row))) }

func (s *server) bytes() bool { return s.vocabulary.Level() == text.ByteLevel }

// tokens returns the tokens of a part of a text: words with spaces between them, or bytes.
func (s *server) tokens(content string) (tokens []int32, err error) {
	words := strings.Fields(content)
	if s.bytes() {
		words = text.ByteSymbols(content)
	}
	for _, word := range words {
		i := slices.Index(s.vocabulary.Words, word)
		if i < text.FirstWord && i != text.Unknown {
			return nil, fmt.Errorf("the word %q is not in the vocabulary", word)
		}
		tokens = append(tokens, int32(i))
	}
	return tokens, nil
}

func (s *server) generate(prompt string, until []string, most int) (string, error) {
	context, err := s.tokens(prompt)
	if err != nil {
		return "", err
	}
	content := ""
	for range most {
		_, row, err := s.after(context)
		if err != nil {
			return "", err
		}
		token := best(row)
		if context = append(context, token); token < text.FirstWord {
			break
		}
		content += s.text(token)
		for _, end := range until {
			if before, _, found := strings.Cut(content, end); found {
				return before, nil
			}
		}
	}
	return content, nil
}

func (s *server) text(token int32) string {
	if s.bytes() {
		return string([]byte{byte(token - text.FirstWord)})
	}
	return " " + s.vocabulary.Words[token]
}
