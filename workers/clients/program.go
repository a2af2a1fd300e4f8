package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

// program is a running program. It implements clientprograms.Client.
type program struct {
	pool         *Pool
	files        *files
	name         string // identifies its setting
	setting      clientprograms.Setting
	vocabulary   *text.Vocabulary
	directory    string                  // of its output
	code         *childprocess.Workspace // below the directory; nil without code
	conversation *contracts.Conversation

	description *clientprograms.Description
	network     models.Network
	together    together
	leaving     *time.Timer // while idle
}

// start starts a program and requests its description.
func start(ctx context.Context, p *Pool, f *files, name string, s clientprograms.Setting) (*program, error) {
	c := &program{pool: p, files: f, name: name, setting: s, vocabulary: text.NewVocabulary(s.Words)}
	var err error
	if c.directory, err = f.slot(); err != nil {
		return nil, fmt.Errorf("a directory for the program %q: %w", s.Command, err)
	}
	code, err := c.unpack(ctx)
	if err != nil {
		c.clear()
		return nil, fmt.Errorf("the code of the program %q: %w", s.Command, err)
	}
	if c.conversation, err = contracts.Start(context.WithoutCancel(ctx), c.command(code), protocol(s.Command)); err != nil {
		c.clear()
		return nil, err
	}
	if err := c.introduce(ctx); err != nil {
		_ = c.end() // the error has the reason
		return nil, err
	}
	return c, nil
}

// terms returns the terms of the setting, completed by those of the pool.
func (c *program) terms() childprocess.Terms {
	o, terms := &c.pool.options, c.setting.Terms
	terms.AnswerSeconds, terms.Memory = cmp.Or(terms.AnswerSeconds, o.AnswerSeconds), cmp.Or(terms.Memory, o.Memory)
	terms.Network, terms.Environment = terms.Network || o.Network, slices.Concat(o.Environment, terms.Environment)
	return terms
}

// threads is the number of threads of a program: that of a slot of a worker.
const threads = 1

func (c *program) command(directory string) *childprocess.Command {
	o := &c.pool.options
	return &childprocess.Command{
		Args: childprocess.Shell(c.setting.Command), Dir: directory, Terms: c.terms(), Set: append(childprocess.Threads(threads), c.setting.Set...), Grace: o.Grace,
		Write: append([]string{c.directory}, o.Write...), Read: []string{c.files.path},
	}
}

// unpack makes a directory with the program's code, and returns it; "" without code.
func (c *program) unpack(ctx context.Context) (string, error) {
	if c.setting.Archive == nil {
		return "", nil
	}
	var err error
	if c.code, err = childprocess.NewWorkspaceIn(c.directory); err != nil {
		return "", err
	}
	return c.code.Path(), c.setting.Archive.Unpack(ctx, c.code)
}

func (c *program) introduce(ctx context.Context) error {
	words, err := c.files.words(c.setting.Words)
	if err != nil {
		return err
	}
	about := introduction{
		Versions: contract.Versions(), Config: c.setting.Config, Threads: threads,
		Vocabulary: vocabulary{Size: len(c.setting.Words), Begin: text.Begin, End: text.End, FirstWord: text.FirstWord, Words: words},
	}
	if about.Config == nil {
		about.Config = json.RawMessage("{}")
	}
	if c.setting.OfImages() {
		about.Image = &c.setting.Image
	}
	err = c.ask(ctx, describe, describe, about, func(result json.RawMessage) (err error) {
		c.description, c.network, err = decodeDescription(result, c.setting.OfImages())
		return err
	})
	if contracts.Exit(err) != "" {
		return tasks.Permanent(err) // such as for a missing module
	}
	if err == nil {
		err = c.fits()
	}
	return err
}

func (c *program) Description() *clientprograms.Description { return c.description }

func (c *program) GiveBack() { c.pool.put(c) }

// end ends the program. The error reports an end that breaks the contract.
func (c *program) end() error {
	defer c.clear()
	return c.conversation.Close()
}

func (c *program) clear() {
	if c.code != nil {
		c.code.Remove()
	}
	os.RemoveAll(c.directory)
}

// train sends a request to train users. The error is a *clientprograms.DivergedError if one of them diverged.
func (c *program) train(ctx context.Context, method, subject string, users int, about *request, decode func(json.RawMessage) error) error {
	err := c.ask(ctx, method, subject, about, decode)
	if diverged := decodeDivergence(err, users); diverged != nil {
		return diverged
	}
	return err
}

// ask sends a request and decodes the answer. An answer that decode refuses ends the program. The error is
// permanent if a retry cannot succeed.
func (c *program) ask(ctx context.Context, method, subject string, about any, decode func(json.RawMessage) error) error {
	return external.CommandError(ctx, c.conversation.Ask(ctx, method, subject, about, decode))
}

func (c *program) Initial(ctx context.Context, seed uint64) ([]float32, error) {
	params := make([]float32, c.network.Parameters())
	into := filepath.Join(c.directory, "initial.safetensors")
	defer os.Remove(into)
	err := c.ask(ctx, initial, initial, request{Into: into, Seed: &seed}, func(json.RawMessage) error {
		return c.read(into, params, checkpoints.CopyParameters)
	})
	return params, err
}

func (c *program) Fit(ctx context.Context, w clientprograms.Work, params []float32) (*clientprograms.Fitted, error) {
	path, letGo, err := c.files.hold(ctx, w.Model)
	if err != nil {
		return nil, err
	}
	defer letGo()
	into := filepath.Join(c.directory, "fit.safetensors")
	defer os.Remove(into)
	about := request{Parameters: path, Into: into, Examples: c.examples(w.Examples), Round: w.Round, Seed: &w.Seed}
	var f *clientprograms.Fitted
	err = c.train(ctx, fit, fmt.Sprintf("fit, %d examples", len(w.Examples)), 1, &about, func(result json.RawMessage) error {
		if f, err = decodeFitted(result, len(w.Examples)); err != nil {
			return err
		}
		return c.read(into, params, checkpoints.CopyTrained)
	})
	return f, err
}

func (c *program) Evaluate(ctx context.Context, w clientprograms.Work) (*clientprograms.Evaluation, error) {
	path, letGo, err := c.files.hold(ctx, w.Model)
	if err != nil {
		return nil, err
	}
	defer letGo()
	var e *clientprograms.Evaluation
	about := request{Parameters: path, Examples: c.examples(w.Examples)}
	err = c.ask(ctx, evaluate, fmt.Sprintf("evaluate, %d examples", len(w.Examples)), about, func(result json.RawMessage) (err error) {
		e, err = decodeEvaluation(result, c.targets(w.Examples))
		return err
	})
	return e, err
}

// targets returns the maximum number of predictions on the examples: a label for each image; the tokens
// after the first of each list; and, because programs use their own tokenizers, the bytes of each text and
// its end.
func (c *program) targets(sentences [][]int32) (most int) {
	switch c.description.Input {
	case clientprograms.ImagesInput:
		return len(sentences)
	case clientprograms.TokensInput:
		for _, s := range sentences {
			most += max(0, len(s)-1)
		}
		return most
	case clientprograms.TextInput: // see below
	}
	for _, s := range sentences {
		most += len(printable(c.vocabulary.Text(external.Words(s)))) + 1
	}
	return most
}

// pairsAsked is the number of pairs of a request.
const pairsAsked = 256

func (c *program) LogLikelihoods(ctx context.Context, m clientprograms.Model, pairs []clientprograms.Pair) ([]score.Answer, error) {
	path, letGo, err := c.files.hold(ctx, m)
	if err != nil {
		return nil, err
	}
	defer letGo()
	if c.description.Tree && c.description.Input == clientprograms.TokensInput {
		return c.scoreTrees(ctx, path, pairs)
	}
	return c.scorePairs(ctx, path, pairs)
}

func (c *program) scorePairs(ctx context.Context, parameters string, pairs []clientprograms.Pair) (all []score.Answer, err error) {
	for len(pairs) > 0 {
		part := pairs[:min(len(pairs), pairsAsked)]
		about := request{Parameters: parameters, Pairs: c.pairs(part)}
		err := c.ask(ctx, logLikelihood, fmt.Sprintf("loglikelihood, %d pairs", len(part)), about, func(result json.RawMessage) error {
			answers, err := score.DecodeAnswers(result, len(part), InTheirOrder, FiniteNumbers)
			all = append(all, answers...)
			return err
		})
		if err != nil {
			return nil, err
		}
		pairs = pairs[len(part):]
	}
	return all, nil
}

// headerRoom is the limit on the header of a file of parameters, in bytes.
const headerRoom = 16 << 20

// read copies the parameters that the program has written: all, or the trained ones.
func (c *program) read(path string, params []float32, copyInto func(models.Network, []float32, []byte) error) error {
	data, err := childprocess.ReadFile(path, int64(4*len(params))+headerRoom)
	if err != nil {
		return unreadable(err, len(params))
	}
	return misshapen(copyInto(c.network, params, data), SameTensors)
}

// unreadable returns the error of an unreadable file of parameters.
func unreadable(err error, params int) error {
	if large, ok := errors.AsType[*childprocess.FileError](err); ok && large.Limit > 0 {
		return SameTensors.Errorf("its file of parameters has %d bytes; expected at most %d for the %d parameters of describe", large.Size, large.Limit, params)
	}
	return FilesAsAsked.Errorf("it wrote no readable file of parameters: %v", err)
}

// misshapen returns the error of a file with content that breaks a rule about shapes, or numbers that are not
// finite.
func misshapen(err error, shapes contracts.Rule) error {
	if _, diverged := errors.AsType[*checkpoints.NotFiniteError](err); diverged {
		return FiniteNumbers.Errorf("its %v", err)
	}
	if errors.Is(err, safetensors.ErrFormat) {
		return shapes.Errorf("its file of parameters is %v", err)
	}
	if err != nil {
		return shapes.Errorf("its %v", err)
	}
	return nil
}

func (c *program) examples(sentences [][]int32) any {
	switch c.description.Input {
	case clientprograms.TokensInput:
		return sentences
	case clientprograms.ImagesInput:
		return imagesOf(c.setting.Image, sentences)
	case clientprograms.TextInput: // see below
	}
	texts := make([]string, len(sentences))
	for i, s := range sentences {
		texts[i] = printable(c.vocabulary.Text(external.Words(s)))
	}
	return texts
}

// printable converts a text, which may be any bytes, to valid UTF-8.
func printable(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// pairs encodes contexts and continuations for the program.
func (c *program) pairs(list []clientprograms.Pair) any {
	if c.description.Input == clientprograms.TokensInput {
		pairs := make([][2][]int32, len(list))
		for i, p := range list {
			pairs[i] = [2][]int32{notNil(p.Context), notNil(p.Continuation)}
		}
		return pairs
	}
	texts := make([][2]string, len(list))
	for i, p := range list {
		context, continuation := c.vocabulary.Texts(p.Context, p.Continuation)
		texts[i] = [2]string{printable(context), printable(continuation)}
	}
	return texts
}

// notNil returns a list that JSON encodes as brackets, not null.
func notNil(tokens []int32) []int32 {
	if tokens == nil {
		return []int32{}
	}
	return tokens
}
