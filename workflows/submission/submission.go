// Package submission prepares an experiment file for a run: it reads and
// checks the file and all its data before anything is stored or queued.
package submission

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// Submission is a checked experiment, ready to be submitted.
type Submission struct {
	// Spec is the resolved experiment: rounds counted, sources known by digest.
	Spec *experiment.Spec
	// Sources are the local files of the data by digest.
	Sources map[storage.Digest]string
	// Warnings name doubtful choices, one sentence each.
	Warnings []string
	// TokensPerExample is the mean of each cell's training examples, the end
	// token included; TestTokens counts those of its test part. For estimates.
	TokensPerExample, TestTokens []float64
}

// maxFileBytes bounds an experiment file: one byte more than the parser takes,
// so that it is the parser that says what is wrong.
const maxFileBytes = 1<<20 + 1

// Prepare reads an experiment file and surveys its data. Relative sources
// start at the working directory or, if there is nothing, at the file's folder.
// An error says everything that is wrong, and nothing has been stored.
//
// key returns the fingerprint of the secret key at hand, or nothing; it is asked
// only if a cell needs one. nil stands for no key.
func Prepare(ctx context.Context, path string, o experiment.Options, key func() (string, error)) (*Submission, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	spec, err := experiment.Parse(path, data, o)
	if err != nil {
		return nil, err
	}
	s := &Submission{Spec: spec, Sources: map[storage.Digest]string{}}
	facts, err := s.survey(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := s.addKey(facts, key); err != nil {
		return nil, err
	}
	if err := spec.Resolve(facts); err != nil {
		return nil, err
	}
	s.warn()
	return s, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("experiment file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("experiment file %s: %w", path, err)
	}
	return data, nil
}

// addKey completes the facts of the cells that draw from a secret key.
func (s *Submission) addKey(facts []experiment.Facts, key func() (string, error)) error {
	secret := func(c experiment.Cell) bool { return c.Experiment.Training.Privacy.Secret() }
	if key == nil || !slices.ContainsFunc(s.Spec.Cells, secret) {
		return nil
	}
	fingerprint, err := key()
	if err != nil {
		return err
	}
	for i := range facts {
		facts[i].Key = fingerprint
	}
	return nil
}

// survey reads every source once, for all cells that use it, and returns the
// facts of each cell.
func (s *Submission) survey(ctx context.Context, folder string) ([]experiment.Facts, error) {
	cellsOf := map[string][]int{}
	var order []string
	for i := range s.Spec.Cells {
		source := s.Spec.Cells[i].Experiment.Data.Source
		if cellsOf[source] == nil {
			order = append(order, source)
		}
		cellsOf[source] = append(cellsOf[source], i)
	}
	facts := make([]experiment.Facts, len(s.Spec.Cells))
	s.TokensPerExample, s.TestTokens = make([]float64, len(facts)), make([]float64, len(facts))
	for _, source := range order {
		if err := s.surveySource(ctx, folder, source, cellsOf[source], facts); err != nil {
			return nil, err
		}
	}
	return facts, nil
}

func (s *Submission) surveySource(ctx context.Context, folder, source string, cells []int, facts []experiment.Facts) error {
	path, err := locate(folder, source)
	if err != nil {
		return err
	}
	digest, err := digestFile(path)
	if err != nil {
		return err
	}
	s.Sources[digest] = path
	var recipes []datasets.Recipe
	at := map[datasets.Recipe]int{}
	for _, i := range cells {
		r := compile.Recipe(&s.Spec.Cells[i].Experiment)
		if _, there := at[r]; !there {
			at[r] = len(recipes)
			recipes = append(recipes, r)
		}
	}
	found, err := datasets.Survey(ctx, LocalFiles(path), datasets.Limits{}, recipes)
	if err != nil {
		return err
	}
	for _, i := range cells {
		f := &found[at[compile.Recipe(&s.Spec.Cells[i].Experiment)]]
		facts[i] = cellFacts(digest, f)
		s.TokensPerExample[i] = 1 + float64(f.Balance.Balanced.Words)/float64(max(1, f.Balance.Balanced.Examples))
		s.TestTokens[i] = float64(f.Parts.Test.Words + f.Parts.Test.Examples)
	}
	return nil
}

func cellFacts(digest storage.Digest, f *datasets.Facts) experiment.Facts {
	return experiment.Facts{
		SHA256:        digest.String(),
		Users:         f.Balance.Balanced.Users,
		Examples:      f.Balance.Balanced.Examples,
		DistinctWords: f.Parts.DistinctWords,
		TestExamples:  f.Parts.Test.Examples,
	}
}

// LocalFiles are the files of a local source, for datasets.Survey.
func LocalFiles(path string) []datasets.File {
	return []datasets.File{{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}}
}

// locate finds a local source: from the working directory, or beside the file.
func locate(folder, source string) (string, error) {
	tried := []string{source}
	if !filepath.IsAbs(source) {
		tried = append(tried, filepath.Join(folder, source))
	}
	for _, path := range tried {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("data.source: %w", err)
		}
		if !info.Mode().IsRegular() {
			return "", fmt.Errorf("data.source: %s is not a regular file; expected JSON lines, plain, .gz or .zst", path)
		}
		return path, nil
	}
	return "", fmt.Errorf("data.source: there is no file %q, looked for from the working directory and from %s", source, folder)
}

func digestFile(path string) (storage.Digest, error) {
	var d storage.Digest
	f, err := os.Open(path)
	if err != nil {
		return d, fmt.Errorf("data.source: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return d, fmt.Errorf("data.source: reading %s: %w", path, err)
	}
	h.Sum(d[:0])
	return d, nil
}

// warn collects each cell's warnings once.
func (s *Submission) warn() {
	seen := map[string]bool{}
	for i := range s.Spec.Cells {
		for _, w := range s.Spec.Cells[i].Warnings() {
			if !seen[w] {
				seen[w] = true
				s.Warnings = append(s.Warnings, w)
			}
		}
	}
}

// Record is the run record of the submission.
func (s *Submission) Record() runs.Spec {
	return runs.Spec{Name: s.Spec.Name, Digest: s.Spec.Digest(), Experiment: s.Spec.Canonical()}
}
