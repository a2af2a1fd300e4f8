// Package submission prepares an experiment file for a run: it reads and
// checks the file and all its data before anything is stored or queued.
package submission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// Submission is a checked experiment, ready to be submitted.
type Submission struct {
	// Spec is the resolved experiment: rounds are counted, and digests name the sources.
	Spec *experiment.Spec
	// Warnings are sentences about doubtful settings.
	Warnings []string
	// By cell, for estimates: TokensPerExample and TokensPerUser are the mean numbers of tokens of a training example
	// and a training user, with end tokens; TrainTokens and TestTokens are the numbers of tokens of the training users
	// and the test part. An image counts as one token, because a model predicts its label.
	TokensPerExample, TokensPerUser, TrainTokens, TestTokens []float64
	// Read counts the users, examples and tokens of each source, before users are balanced. Each pixel of
	// an image counts as a token.
	Read map[Reading]population.Counts

	sources []*sources.Source // of the data, surveyed
	// tokenizers by the digests of their files.
	tokenizers map[storage.Digest]*subwords.Tokenizer
}

// Reading identifies a source by its first file, and the level at which it is read.
type Reading struct {
	First storage.Digest
	Level text.Level
}

// count adds a source surveyed for a recipe to Read.
func (s *Submission) count(files []storage.Digest, r *datasets.Recipe, f *datasets.Facts) {
	if s.Read == nil {
		s.Read = map[Reading]population.Counts{}
	}
	read := r.Import(files, source.Limits{})
	s.Read[Reading{files[0], cmp.Or(read.Level, text.WordLevel)}] = f.Source.Counts
}

// maxFileBytes bounds an experiment file: one byte more than the parser
// accepts, so that the parser reports the error.
const maxFileBytes = 1<<20 + 1

// PrepareFile checks the text of an experiment file and surveys its data, which finder looks up. name is
// the file's name in messages. The error lists all mistakes. PrepareFile stores nothing.
//
// key returns the fingerprint of the available secret key, or "". PrepareFile calls it only if a cell needs
// a key, with the fingerprint that the file names first, or "". If key is nil, there is no key.
func PrepareFile(ctx context.Context, name string, data []byte, o experiment.Options, finder sources.Finder, key func(named string) (string, error)) (*Submission, error) {
	spec, err := experiment.Parse(name, data, o)
	if err != nil {
		return nil, err
	}
	// Check now, before the data are read, and again with the rounds that follow from them.
	if err := compile.CheckSize(spec); err != nil {
		return nil, err
	}
	s := &Submission{Spec: spec}
	if err := s.readModels(ctx, finder); err != nil {
		return nil, err // without the error about a tokenizer in the same folder
	}
	if err := s.readTokenizers(ctx, finder); err != nil {
		return nil, err
	}
	facts, err := s.survey(ctx, finder)
	if err != nil {
		return nil, err
	}
	if err := s.addKey(facts, key); err != nil {
		return nil, err
	}
	if err := spec.Resolve(facts); err != nil {
		return nil, err
	}
	if err := compile.CheckSize(spec); err != nil {
		return nil, err
	}
	s.warn()
	return s, nil
}

// ReadFile reads an experiment file, at most maxFileBytes.
func ReadFile(path string) ([]byte, error) {
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
func (s *Submission) addKey(facts []experiment.Facts, key func(named string) (string, error)) error {
	secret := func(c experiment.Cell) bool { return c.Experiment.Training.Privacy.Secret() }
	if key == nil || !slices.ContainsFunc(s.Spec.Cells, secret) {
		return nil
	}
	named := ""
	if keys := s.Spec.Keys(); len(keys) > 0 {
		named = keys[0]
	}
	fingerprint, err := key(named)
	if err != nil {
		return err
	}
	for i := range facts {
		facts[i].Key = fingerprint
	}
	return nil
}

// use is a cell's use of a source.
type use struct {
	cell int
	// experiment is the cell's experiment, or one of its prepared experiments, which names the
	// source at path.
	experiment *experiment.Experiment
	path       string
	// ownData reports whether the source is the cell's data. Otherwise it is the Prepared source at place.
	ownData bool
	place   int
}

func (s *Submission) uses() []use {
	var all []use
	for i := range s.Spec.Cells {
		e := &s.Spec.Cells[i].Experiment
		all = append(all, use{cell: i, experiment: e, path: "data.source", ownData: true})
		for j, source := range e.Sources() {
			all = append(all, use{cell: i, experiment: source.Of.ExperimentFor(e), path: source.Path + ".source", place: j})
		}
	}
	return all
}

// named identifies a source and how it is read.
type named struct {
	source, sha256 string
	limits         source.Limits
	reading        source.Reading // without the level and the fields that depend on it: a survey reads all levels at once
}

func (u *use) named() named {
	d := &u.experiment.Data
	reading := d.Reading()
	reading.Level, reading.Tokenizer, reading.Sequence = "", storage.Digest{}, 0
	return named{d.Source, d.SHA256, compile.Limits(u.experiment), reading}
}

// survey reads every source once, for all cells that use it.
func (s *Submission) survey(ctx context.Context, finder sources.Finder) ([]experiment.Facts, error) {
	usesOf := map[named][]use{}
	var order []named
	for _, u := range s.uses() {
		name := u.named()
		if usesOf[name] == nil {
			order = append(order, name)
		}
		usesOf[name] = append(usesOf[name], u)
	}
	facts := make([]experiment.Facts, len(s.Spec.Cells))
	for i := range facts {
		facts[i].Prepared = make([]experiment.Facts, len(s.Spec.Cells[i].Experiment.Sources()))
	}
	for _, list := range []*[]float64{&s.TokensPerExample, &s.TokensPerUser, &s.TrainTokens, &s.TestTokens} {
		*list = make([]float64, len(facts))
	}
	found := make([]*sources.Source, len(order))
	var missing error
	for i, name := range order {
		source, err := finder.Find(ctx, name.source, name.sha256)
		if err != nil {
			first := usesOf[name][0]
			missing = errors.Join(missing, fmt.Errorf("%s: %w", s.Spec.Cells[first.cell].Where(first.path), err))
		}
		found[i] = source
	}
	if missing != nil {
		return nil, missing
	}
	for i, name := range order {
		if err := s.surveySource(ctx, found[i], name.limits, usesOf[name], facts); err != nil {
			return nil, err
		}
	}
	if err := s.surveySecond(ctx, finder, facts); err != nil {
		return nil, err
	}
	if err := s.packCode(ctx, finder, facts); err != nil {
		return nil, err
	}
	return facts, s.surveyAudits(ctx, finder, facts)
}

func (s *Submission) surveySource(ctx context.Context, src *sources.Source, limits source.Limits, uses []use, facts []experiment.Facts) error {
	recipes, at := s.recipes(uses)
	found, err := src.Survey(ctx, limits, recipes)
	if err != nil {
		return err
	}
	s.sources = append(s.sources, src)
	for n, u := range uses {
		f, i := &found[at[n]], u.cell
		s.count(src.Digests(), &recipes[at[n]], f)
		if !u.ownData {
			facts[i].Prepared[u.place] = cellFacts(src.Digests(), f)
			continue
		}
		prepared := facts[i].Prepared
		facts[i] = cellFacts(src.Digests(), f)
		facts[i].Prepared = prepared
		if u.experiment.Data.Reading().SplitByFile() {
			facts[i].FileSplits = src.Splits()
		}
		divide(u.experiment, f.Members, &facts[i])
		if tokenizer := s.tokenizers[recipes[at[n]].Tokenizer]; tokenizer != nil {
			facts[i].Tokens = len(tokenizer.Tokens())
		}
		level, balanced := u.experiment.Data.Level.Scheme(), f.Balance.Balanced
		s.TokensPerExample[i] = targets(level, balanced) / float64(max(1, balanced.Examples))
		s.TrainTokens[i] = targets(level, balanced)
		s.TokensPerUser[i] = s.TokensPerExample[i] * float64(facts[i].Examples) / float64(max(1, facts[i].Users))
		s.TestTokens[i] = targets(level, f.Parts.Test)
	}
	return nil
}

// recipes returns the distinct recipes of uses, and the index of the recipe of each use.
func (s *Submission) recipes(uses []use) (recipes []datasets.Recipe, at []int) {
	known := map[string]int{}
	for _, u := range uses {
		r := s.tokenizing(compile.Recipe(u.experiment))
		text := fmt.Sprintf("%#v", r)
		if _, there := known[text]; !there {
			known[text] = len(recipes)
			recipes = append(recipes, r)
		}
		at = append(at, known[text])
	}
	return recipes, at
}

// targets returns the number of predictions on examples: a token after each word, or one for a whole image.
func targets(level text.LevelScheme, c population.Counts) float64 {
	if level.Images {
		return float64(c.Examples)
	}
	return float64(c.Words + c.Examples)
}

func cellFacts(files []storage.Digest, f *datasets.Facts) experiment.Facts {
	return experiment.Facts{
		Files:         files,
		Users:         f.Balance.Balanced.Users,
		Examples:      f.Balance.Balanced.Examples,
		HeldOutUsers:  f.Balance.HeldOut.Users,
		DistinctWords: cmp.Or(f.VocabularyWords, f.Parts.DistinctWords),
		TestExamples:  f.Parts.Test.Examples,
		MissingWords:  strings.Fields(f.Missing),
		Phrases:       f.Phrases,
		Secrets:       f.Secrets,
		Sizes:         f.Sizes,
		Unlabelled:    f.Source.Unlabelled,
		Rules:         f.Rules,
		Similar:       f.Similar,
	}
}

// divide adds the division of users into devices to the facts, if the experiment asks for it. If some data are
// removed before the division, divide drops users with too few examples as if they were removed; the task checks
// them.
func divide(e *experiment.Experiment, members []datasets.Member, f *experiment.Facts) {
	if e.Data.Devices == nil || len(members) == 0 {
		return
	}
	users := lists.Map(members, func(m datasets.Member) devices.Owned { return devices.Owned{Examples: m.Examples, Groups: m.Groups} })
	p := e.Data.Devices.Split(e.Seed)
	w, err := p.Divide(users)
	few, ok := errors.AsType[*devices.TooFewError](err)
	if ok && e.Data.Narrowed() {
		p.AtLeast = max(p.AtLeast, 1)
		for _, user := range few.Users {
			users[user] = devices.Owned{}
		}
		w, err = p.Divide(users)
	}
	if err != nil {
		if ok {
			few.Name = func(user int) string { return strconv.Quote(members[user].Name) }
		}
		f.DevicesError = err
		return
	}
	f.Devices, f.Sizes = w.Summary(p), map[int]int{}
	for _, size := range w.Sizes {
		f.Sizes[size]++
	}
	f.Users, f.Examples = f.Devices.Devices, w.Examples()
}

// Sources returns the sources of the data, each once.
func (s *Submission) Sources() []*sources.Source { return s.sources }

// Upload uploads the sources that the uploader lacks.
func (s *Submission) Upload(ctx context.Context, to sources.Uploader) error {
	for _, source := range s.sources {
		if err := source.Upload(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// numeral matches a number in a warning.
var numeral = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// warn collects the cells' warnings. Of warnings that differ only in numbers, it keeps the first. It names the cells of a
// warning that other cells do not have.
func (s *Submission) warn() {
	type form struct {
		texts map[string]bool
		cells []string
	}
	forms, first := map[string]*form{}, []*form{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		for _, w := range c.Warnings() {
			of := numeral.ReplaceAllString(w, "#")
			if forms[of] == nil {
				forms[of] = &form{texts: map[string]bool{}}
				s.Warnings, first = append(s.Warnings, w), append(first, forms[of])
			}
			f := forms[of]
			f.texts[w] = true
			if n := len(f.cells); n == 0 || f.cells[n-1] != c.Name {
				f.cells = append(f.cells, c.Name)
			}
		}
	}
	for i, f := range first {
		switch n := len(f.cells); {
		case n == len(s.Spec.Cells):
		case n > namedCells:
			s.Warnings[i] += fmt.Sprintf(" (%s and %d others of %d cells)", f.cells[0], n-1, len(s.Spec.Cells))
		default:
			s.Warnings[i] += fmt.Sprintf(" (%s)", strings.Join(f.cells, ", "))
		}
		if len(f.texts) > 1 {
			s.Warnings[i] += fmt.Sprintf(" (the numbers are those of %s)", f.cells[0])
		}
	}
}

// namedCells is the largest number of cells that a warning names.
const namedCells = 4

func (s *Submission) Record() runs.Spec {
	canonical := s.Spec.Canonical()
	return runs.Spec{Name: s.Spec.Name, Digest: storage.DigestOf(canonical), Experiment: canonical}
}
