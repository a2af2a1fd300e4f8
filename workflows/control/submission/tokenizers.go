package submission

import (
	"context"
	"fmt"
	"io"

	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/subwords"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// maxTokenizer is the greatest size of a file tokenizer.json, in bytes; that of Llama 3 has 9
// million.
const maxTokenizer = 64 << 20

// canaryWords is the number of words from which canaries at the subword level are drawn. It
// bounds the parameters of tasks; five words have 2^45 sequences.
const canaryWords = 512

// readTokenizers reads each tokenizer once, for all cells that name it, and records its digest
// there.
func (s *Submission) readTokenizers(ctx context.Context, finder sources.Finder) error {
	s.tokenizers, s.canaryWords = map[storage.Digest]*subwords.Tokenizer{}, map[storage.Digest][]string{}
	type named struct{ path, sha256 string }
	known := map[named]storage.Digest{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		d := &c.Experiment.Data
		if d.Tokenizer == "" {
			continue
		}
		name := named{d.Tokenizer, d.TokenizerSHA256}
		if _, ok := known[name]; !ok {
			digest, err := s.readTokenizer(ctx, finder, d)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Where("data.tokenizer"), err)
			}
			known[name] = digest
		}
		d.TokenizerSHA256 = known[name].String()
	}
	return nil
}

func (s *Submission) readTokenizer(ctx context.Context, finder sources.Finder, d *experiment.Data) (digest storage.Digest, err error) {
	source, err := finder.Find(ctx, d.Tokenizer, d.TokenizerSHA256)
	if err != nil {
		return digest, err
	}
	data, err := readFile(ctx, source)
	if err != nil {
		return digest, err
	}
	tokenizer, err := subwords.Parse(data)
	if err != nil {
		return digest, fmt.Errorf("%s: %w", d.Tokenizer, err)
	}
	digest = source.Digests()[0]
	if given := d.TokenizerSHA256; given != "" && given != digest.String() {
		return digest, fmt.Errorf("%s has the SHA-256 %s, and data.tokenizer_sha256 is %s; restore the file, or correct the field", d.Tokenizer, digest, given)
	}
	s.sources, s.tokenizers[digest] = append(s.sources, source), tokenizer
	if words, err := tokenizer.Words(); err == nil { // else canaries need symbols
		s.canaryWords[digest] = words[:min(len(words), canaryWords)]
	}
	return digest, nil
}

// readFile reads the only file of a source.
func readFile(ctx context.Context, source *sources.Source) (data []byte, err error) {
	if len(source.Files) != 1 {
		return nil, fmt.Errorf("%s has %d files; expected one file tokenizer.json", source.Name, len(source.Files))
	}
	err = source.Read(ctx, datasets.Limits{}, func(_ context.Context, files []datasets.File, _ datasets.Limits) error {
		body, err := files[0].Open()
		if err != nil {
			return err
		}
		defer body.Close()
		data, err = io.ReadAll(io.LimitReader(body, maxTokenizer+1))
		return err
	})
	if err == nil && len(data) > maxTokenizer {
		err = fmt.Errorf("%s has more than %d bytes; expected a file tokenizer.json", source.Name, maxTokenizer)
	}
	return data, err
}

// addTokens takes in the facts of a tokenizer, if there is one.
func (s *Submission) addTokens(f *experiment.Facts, tokenizer storage.Digest) {
	if t := s.tokenizers[tokenizer]; t != nil {
		f.Tokens, f.CanaryWords = len(t.Tokens()), s.canaryWords[tokenizer]
	}
}

// tokenizing is a recipe with its tokenizer.
func (s *Submission) tokenizing(r datasets.Recipe) datasets.Recipe {
	r.Reading = r.WithTokenizer(s.tokenizers[r.Tokenizer])
	return r
}
