// Package pretrained reads trained causal language models in Hugging Face's layout, as a
// models.Transformer:
//
//	folder, err := pretrained.Open(os.DirFS("gpt2"), "gpt2")
//	...
//	defer folder.Close()
//	scorer, err := folder.NewScorer()
//
// A folder has config.json, tokenizer.json (package subwords), and model.safetensors or its parts
// by model.safetensors.index.json, in float32, float16 or bfloat16. It supports the models gpt2,
// gpt_neox (Pythia) and llama. Any setting that would change the arithmetic in an unknown way is an
// error that names it.
//
// Token n of the folder is token text.FirstWord + n. text.Begin has the vector of the token
// that begins a text; tokens below text.FirstWord are never predicted.
package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"coalmine/models"
	"coalmine/storage/safetensors"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
)

// Files of a folder.
const (
	ConfigFile    = "config.json"
	TokenizerFile = "tokenizer.json"
	weightsFile   = "model.safetensors"
	indexFile     = "model.safetensors.index.json"
)

// Folder is an open folder. Its methods may be called by one goroutine at a time.
type Folder struct {
	Model      *models.Language
	Tokenizer  *subwords.Tokenizer
	Vocabulary *text.Vocabulary
	// Begin and End are the tokens that begin and end a text, by number in Vocabulary.
	Begin, End int32

	name   string
	from   fs.FS
	family *family
	prefix string // prefix of tensor names
	files  []fs.File
	shards []*safetensors.Parts
	read   []float32 // scratch memory
}

// Open reads a folder except its weights, whose names and shapes it checks. Files of weights must
// be io.ReaderAt, as those of os.DirFS are. name is used in messages; an error is one sentence that
// names the file.
func Open(from fs.FS, name string) (folder *Folder, err error) {
	f := &Folder{name: name, from: from}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	var c config
	if err := f.decode(ConfigFile, &c); err != nil {
		return nil, err
	}
	if f.family, err = c.family(); err != nil {
		return nil, f.fail(ConfigFile, err)
	}
	if err := f.openWeights(); err != nil {
		return nil, err
	}
	network, err := f.family.network(&c)
	if err != nil {
		return nil, f.fail(ConfigFile, err)
	}
	f.findPrefix()
	network.Untied = !c.tied(f.family)
	if err := f.readTokenizer(&c); err != nil {
		return nil, err
	}
	network.Vocabulary = f.Vocabulary.Size()
	if f.Model, err = models.New(network); err != nil {
		return nil, f.fail(ConfigFile, err)
	}
	return f, f.checkTensors()
}

func (f *Folder) Close() error {
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	f.files, f.shards = nil, nil
	return errors.Join(errs...)
}

// NewScorer reads the weights. It needs the memory of the scorer, 4 bytes per parameter and again
// for the token vectors, and the two largest tensors.
func (f *Folder) NewScorer() (*models.Scorer, error) {
	scorer, err := f.Model.ReadScorer(f.fill)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return scorer, nil
}

// Names returns the names of a text's tokens in Vocabulary.
func (f *Folder) Names(e *subwords.Encoder, content string) []string {
	var names []string
	for _, token := range e.Encode(content) {
		names = append(names, f.Vocabulary.Words[text.FirstWord+int(token)])
	}
	return names
}

// AfterSpace returns a text for the tokenizer to read as if it followed other words. Tokenizers of
// characters add a space before a text themselves.
func (f *Folder) AfterSpace(text string) string {
	if subwords.AlphabetOf(f.Tokenizer.Tokens()) == subwords.Bytes {
		return " " + text
	}
	return text
}

func (f *Folder) fail(file string, err error) error {
	return fmt.Errorf("%s: %w", path.Join(f.name, file), err)
}

// data returns the content of a small file.
func (f *Folder) data(file string) ([]byte, error) {
	data, err := fs.ReadFile(f.from, file)
	if err != nil {
		return nil, f.fail(file, reason(err))
	}
	return data, nil
}

// reason returns an error of a file system without the name of the file.
func reason(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

func (f *Folder) decode(file string, into any) error {
	data, err := f.data(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; expected a folder with %s, %s and %s, as save_pretrained of the transformers library writes it", err, ConfigFile, TokenizerFile, weightsFile)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return f.fail(file, fmt.Errorf("not the expected JSON: %w", err))
	}
	return nil
}

func (f *Folder) openWeights() error {
	names := []string{weightsFile}
	if _, err := fs.Stat(f.from, weightsFile); errors.Is(err, fs.ErrNotExist) {
		var index struct {
			Files map[string]string `json:"weight_map"`
		}
		if err := f.decode(indexFile, &index); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has neither %s nor %s; expected one of them: save_pretrained(FOLDER, safe_serialization=True) of the transformers library writes it", f.name, weightsFile, indexFile)
		} else if err != nil {
			return err
		}
		names = nil
		for _, name := range index.Files {
			if !fs.ValidPath(name) || name == "." || path.Base(name) != name {
				return f.fail(indexFile, fmt.Errorf("weights in the file %q; expected a file in the same folder", name))
			}
			names = append(names, name)
		}
		if len(names) == 0 {
			return f.fail(indexFile, errors.New("its weight_map names no file; expected the file of each tensor"))
		}
		slices.Sort(names)
	}
	for _, name := range slices.Compact(names) {
		if err := f.openPart(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) openPart(name string) error {
	file, err := f.from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; expected each file that %s names: copy the folder again", f.fail(name, reason(err)), indexFile)
	}
	if err != nil {
		return f.fail(name, reason(err))
	}
	f.files = append(f.files, file)
	info, err := file.Stat()
	at, ok := file.(io.ReaderAt)
	if err != nil || !ok {
		return f.fail(name, errors.Join(err, errors.New("the file has no random access; expected a file on a disk")))
	}
	parts, err := safetensors.OpenParts(info.Size(), func(offset, length int64) ([]byte, error) {
		data := make([]byte, length)
		_, err := at.ReadAt(data, offset)
		return data, err
	})
	if err != nil {
		return fmt.Errorf("%w; copy the file again, because it is incomplete or damaged", f.fail(name, err))
	}
	for tensor := range parts.Names() {
		if f.file(tensor) != nil {
			return f.fail(name, fmt.Errorf("tensor %q is in another file of weights, too; expected it in one of them", tensor))
		}
	}
	f.shards = append(f.shards, parts)
	for tensor := range parts.Names() {
		if bare, prefixed := strings.CutPrefix(tensor, f.family.prefix); prefixed && bare != tensor && f.file(bare) != nil {
			return f.fail(name, fmt.Errorf("the weights have both %q and %q; expected one of them", tensor, bare))
		}
	}
	return nil
}

// findPrefix finds whether names of tensors have the prefix of a model with an output layer.
func (f *Folder) findPrefix() {
	if f.file(f.family.prefix+f.family.tensors[models.EmbeddingTensor][0]) != nil {
		f.prefix = f.family.prefix
	}
}

// file returns the file of weights that has a tensor, by its name there; nil if there is none.
func (f *Folder) file(tensor string) *safetensors.Parts {
	for _, parts := range f.shards {
		if _, _, ok := parts.Shape(tensor); ok {
			return parts
		}
	}
	return nil
}

// holder returns the file of a tensor and its name there; nil if there is none.
func (f *Folder) holder(name string) (*safetensors.Parts, string) {
	for _, full := range []string{f.prefix + name, name} {
		if parts := f.file(full); parts != nil {
			return parts, full
		}
	}
	return nil, f.prefix + name
}

// shape returns the shape of a tensor, nil if there is none.
func (f *Folder) shape(name string) []int {
	parts, full := f.holder(name)
	if parts == nil {
		return nil
	}
	shape, _, _ := parts.Shape(full)
	return shape
}

// readTokenizer reads the tokenizer, and names the tokens of the model.
func (f *Folder) readTokenizer(c *config) error {
	embedding := f.shape(f.family.tensors[models.EmbeddingTensor][0])
	if len(embedding) != 2 || embedding[0] > subwords.MaxTokens {
		return fmt.Errorf("%s: the model has no token vectors %q, or they are of the shape %v; expected at most %d rows", f.name, f.prefix+f.family.tensors[models.EmbeddingTensor][0], embedding, subwords.MaxTokens)
	}
	data, err := f.data(TokenizerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; expected the file that tokenizers of the transformers library write by save_pretrained", err)
	}
	if err != nil {
		return err
	}
	if f.Tokenizer, err = subwords.Parse(data); err != nil {
		return f.fail(TokenizerFile, err)
	}
	tokens, rows := len(f.Tokenizer.Tokens()), embedding[0]
	if tokens > rows {
		return f.fail(TokenizerFile, fmt.Errorf("%d tokens, and the model has vectors for %d; expected the model's own tokenizer", tokens, rows))
	}
	words := append(text.Specials(), f.Tokenizer.Names(text.Specials())...)
	for id := tokens; id < rows; id++ {
		words = append(words, fmt.Sprintf("<unused-%d>", id))
	}
	f.Vocabulary = text.NewVocabulary(words)
	if f.Vocabulary.Level() != text.SubwordLevel {
		return f.fail(TokenizerFile, errors.New("no token begins with a space; expected tokens such as \" the\", of a word after a space"))
	}
	if f.Begin, f.End, err = c.specials(rows); err != nil {
		return f.fail(ConfigFile, err)
	}
	return nil
}

func (f *Folder) checkTensors() error {
	for _, t := range f.Model.Tensors() {
		if t.Name == models.OutputBiasTensor {
			continue
		}
		pieces, _ := f.family.pieces(t.Name)
		columns := 0
		for _, name := range pieces {
			shape := slices.Clone(f.shape(name))
			if shape == nil {
				return fmt.Errorf("%s: its weights have no tensor %q; expected all of the model that %s describes", f.name, f.prefix+name, ConfigFile)
			}
			if f.family.transposed(t) {
				slices.Reverse(shape)
			}
			columns += shape[len(shape)-1]
			if len(shape) != len(t.Shape) || len(shape) == 2 && shape[0] != f.rows(t) {
				return f.misshapen(name, t)
			}
		}
		if columns != t.Shape[len(t.Shape)-1] {
			return f.misshapen(pieces[0], t)
		}
	}
	layers := max(1, f.Model.Config().Layers)
	next := strings.Replace(f.family.tensors["attention.output"][0], "#", strconv.Itoa(layers), 1)
	if f.shape(next) != nil {
		return fmt.Errorf("%s: its weights have a tensor %q, of a block more than the %d that %s describes; expected the same number in both", f.name, next, layers, ConfigFile)
	}
	return nil
}

// rows returns the number of rows of a matrix in the folder.
func (f *Folder) rows(t models.Tensor) int {
	if perToken(t.Name) {
		return t.Shape[0] - text.FirstWord
	}
	return t.Shape[0]
}

func (f *Folder) misshapen(name string, t models.Tensor) error {
	return fmt.Errorf("%s: tensor %q has the shape %v, which does not make up %v; expected the shapes of %s", f.name, f.prefix+name, f.shape(name), t, ConfigFile)
}
