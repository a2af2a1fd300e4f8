package submission

import (
	"context"
	"fmt"
	"io"
	"strings"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/subwords"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// maxTokenizer is the maximum size of a file tokenizer.json, in bytes; that of Llama 3 has 9
// million.
const maxTokenizer = 64 << 20

// readTokenizers reads each tokenizer once, and records its digest and the canaries' words in
// all cells that name it.
func (s *Submission) readTokenizers(ctx context.Context, finder sources.Finder) error {
	s.tokenizers = map[storage.Digest]*subwords.Tokenizer{}
	type named struct{ path, sha256 string }
	type found struct {
		digest storage.Digest
		words  []string
	}
	known := map[named]found{}
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
			words, _ := s.tokenizers[digest].Words() // without words, canaries need symbols
			known[name] = found{digest, words}
		}
		d.TokenizerSHA256 = known[name].digest.String()
		if err := c.Experiment.ListCanaryWords(known[name].words); err != nil {
			return fmt.Errorf("%s: %w", c.Where("canaries"), err)
		}
	}
	return nil
}

func (s *Submission) readTokenizer(ctx context.Context, finder sources.Finder, d *experiment.Data) (digest storage.Digest, err error) {
	source, err := findTokenizer(ctx, finder, d)
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
	return digest, nil
}

// findTokenizer finds the file of a tokenizer. If it is given a folder with such a file, the error names the file.
func findTokenizer(ctx context.Context, finder sources.Finder, d *experiment.Data) (*sources.Source, error) {
	source, err := finder.Find(ctx, d.Tokenizer, d.TokenizerSHA256)
	if err == nil && len(source.Files) == 1 {
		return source, nil
	}
	inside := strings.TrimSuffix(d.Tokenizer, "/") + "/tokenizer.json"
	if _, inner := finder.Find(ctx, inside, ""); inner == nil {
		return nil, fmt.Errorf("%s is a folder; expected its file %s", d.Tokenizer, inside)
	}
	if err != nil {
		return nil, fmt.Errorf("expected a file tokenizer.json: %w", err)
	}
	return nil, fmt.Errorf("%s has %s; expected one file tokenizer.json", d.Tokenizer, readable.Count(len(source.Files), "file"))
}

// readFile reads the only file of a source.
func readFile(ctx context.Context, source *sources.Source) (data []byte, err error) {
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

// tokenizing returns a recipe with its tokenizer.
func (s *Submission) tokenizing(r datasets.Recipe) datasets.Recipe {
	r.Reading = r.WithTokenizer(s.tokenizers[r.Tokenizer])
	return r
}
