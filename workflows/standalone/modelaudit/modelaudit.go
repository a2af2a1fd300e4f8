// Package modelaudit audits a finished model, a file of coalmine export or a folder of Hugging Face's layout, by a
// list of canaries, without a run, a store or a queue. Ranks and extractions equal those of the audits of a run.
//
//	model, err := modelaudit.OpenModel(file) // or OpenFolder
//	...
//	list, err := modelaudit.ReadCanaries("canaries.txt", lines)
//	...
//	report, err := model.Run(ctx, list, modelaudit.Options{References: 200_000, BeamWidth: 5})
//
// An Endpoint is a model that is served over HTTP. It returns the log-probabilities of
// every canary and reference.
//
//	vocabulary, err := modelaudit.ReadVocabulary(file, -1)
//	...
//	endpoint, err := modelaudit.NewEndpoint(&modelaudit.CompletionsClient{URL: url, Model: name}, vocabulary, 32)
//	...
//	report, err := endpoint.Run(ctx, list, modelaudit.Options{References: 20_000})
//
// A Command is a model behind an external program (package score).
package modelaudit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/beamsearch"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/pretrained"
	"coalmine/workflows/control"
)

// Options are the options of an audit of canaries.
type Options struct {
	// Seed is the seed of the references.
	Seed uint64
	// References is the number of references among which each canary is ranked. 0 disables random sampling.
	References int
	// FitReferences lowers References to the number of possible sequences.
	FitReferences bool
	// Prefix is the number of given words of a canary. 0 means the default of a run: the words before the first # of
	// Format, or 1 if there are none.
	Prefix int
	// BeamWidth is the number of sequences that beam search keeps. 0 disables it.
	BeamWidth int
	// SkewNormal is the number of first references to whose log-perplexities a distribution is fitted. 0
	// disables the fit.
	SkewNormal int
	// Exact makes the audit count large ranks instead of estimating them.
	Exact bool
	// Alphabet, Format and Symbols are as in canaries.Space. Only models of bytes have an alphabet. Its default is
	// canaries.Listed if there are symbols, or canaries.Lower. A format of words is tokenized like a text.
	Alphabet canaries.Alphabet
	Format   string
	Symbols  string
}

// space returns the space in which canaries of n words are ranked.
func (o *Options) space(words int) canaries.Space {
	return canaries.Space{Words: words, Alphabet: o.Alphabet, Format: o.Format, Symbols: o.Symbols}
}

// complete sets defaults, and looks up the words in the space.
func (o *Options) complete(vocabulary *text.Vocabulary) error {
	switch {
	case vocabulary.Level() == text.SubwordLevel:
		o.Format, o.Symbols = strings.Join(strings.Fields(o.Format), " "), strings.Join(strings.Fields(o.Symbols), " ")
	case vocabulary.Level() != text.ByteLevel:
		o.Format, o.Symbols = strings.Join(text.Tokenize(o.Format), " "), strings.Join(strings.Fields(o.Symbols), " ")
	case o.Symbols != "":
		o.Alphabet = cmp.Or(o.Alphabet, canaries.Listed)
	default:
		o.Alphabet = cmp.Or(o.Alphabet, canaries.Lower)
	}
	o.Prefix = cmp.Or(o.Prefix, o.space(0).DefaultPrefix())
	if !o.space(0).NamesWords() {
		return nil
	}
	_, err := o.space(0).Resolve(vocabulary)
	return err
}

func (o *Options) check(vocabulary *text.Vocabulary) error {
	switch {
	case o.References < 0 || o.References > 1_000_000_000:
		return fmt.Errorf("%d references: expected from 0 (no random sampling) to 1000000000", o.References)
	case o.BeamWidth < 0 || o.BeamWidth > vocabulary.Ordinary():
		return fmt.Errorf("beam width %d: expected from 0 (no beam search) to %d, the words of the vocabulary", o.BeamWidth, vocabulary.Ordinary())
	case o.SkewNormal != 0 && (o.SkewNormal < 100 || o.SkewNormal > 10_000_000):
		return fmt.Errorf("a skew-normal fit to %d references: expected from 100 to 10000000, or 0 (none)", o.SkewNormal)
	case o.References == 0 && o.BeamWidth == 0 && o.SkewNormal == 0:
		return fmt.Errorf("no references, beam width or skew-normal fit: there is nothing to measure")
	case vocabulary.Level() != text.ByteLevel && o.Alphabet != "":
		return fmt.Errorf("alphabet %q: the model reads words, so canaries are ranked among words of its vocabulary; remove the alphabet, or list words as symbols", o.Alphabet)
	case o.Prefix < 0:
		return fmt.Errorf("prefix of %d words: expected at least 1, or none for the default", o.Prefix)
	case vocabulary.Level() == text.WordLevel:
		return o.checkWords()
	}
	return nil
}

// checkWords returns an error unless each symbol is a single word.
func (o *Options) checkWords() error {
	for _, word := range strings.Fields(o.Symbols) {
		if read := text.Tokenize(word); len(read) != 1 || read[0] != word {
			return fmt.Errorf("symbol %q is read as the words %q; expected single words, separated by spaces", word, read)
		}
	}
	return nil
}

// Report lists the canaries that a model has memorized.
type Report struct {
	// RandomSampling and BeamSearch are absent if not requested.
	RandomSampling *Memorized `json:"random_sampling,omitempty"`
	BeamSearch     *Memorized `json:"beam_search,omitempty"`
	// SkewNormal holds the fits, as in the results of a run.
	SkewNormal *skewnormal.Outcome `json:"skew_normal,omitempty"`
	// Canaries are in the order of the list.
	Canaries []Canary `json:"canaries"`
	// Controls compares the canaries with the controls. It is absent without controls or random sampling.
	Controls *Controls `json:"controls,omitempty"`
	// Membership is the report on the losses of texts. It is absent if not requested.
	Membership *MembershipReport `json:"membership,omitempty"`
	// Endpoint is set for a model that is served over HTTP.
	Endpoint *Served `json:"endpoint,omitempty"`
	// Command is set for a model behind a command.
	Command *Commanded `json:"command,omitempty"`
}

// Controls compares the exposures of canaries, in bits, with those of controls. A censored exposure counts
// as its lower bound.
type Controls struct {
	Controls     int     `json:"controls"`
	MeanControls float64 `json:"mean_exposure_controls"`
	MeanCanaries float64 `json:"mean_exposure_canaries"`
	// P is the p-value of Mann and Whitney's two-sided test.
	P float64 `json:"p"`
}

// Memorized is the number of memorized canaries by one measurement.
type Memorized struct {
	Memorized  int `json:"memorized"`
	Of         int `json:"of"`
	References int `json:"references,omitempty"`
	Width      int `json:"width,omitempty"`
	// MemorizedLow and MemorizedHigh are the numbers of canaries that are memorized by every rank, and by
	// at least one rank, of their interval. Only endpoints and commands have them.
	MemorizedLow  *int `json:"memorized_low,omitempty"`
	MemorizedHigh *int `json:"memorized_high,omitempty"`
}

// Canary is the outcome of one canary, as in a run's results.
type Canary struct {
	Line  int      `json:"line"`
	Text  string   `json:"text"`
	Words []string `json:"words"`
	// Control reports whether the training data did not contain the canary. Memorized does not count it.
	Control bool `json:"control,omitempty"`
	Ranked
	Extracted
	Fitted
	Written
	// RankLow and RankHigh bound the rank, given the largest difference seen between scores of a sequence.
	// Only endpoints and commands have them.
	RankLow  *int64 `json:"rank_low,omitempty"`
	RankHigh *int64 `json:"rank_high,omitempty"`
}

// Outcomes of a canary.
type (
	Ranked    = randomsampling.CanaryOutcome
	Extracted = beamsearch.CanaryOutcome
	Fitted    = skewnormal.CanaryOutcome
)

// Model is a model from a file or a folder.
type Model struct {
	vocabulary *text.Vocabulary
	// scorer reads the weights at its first call.
	scorer func() (*models.Scorer, error)
	// context is the maximum number of tokens that the model reads, or 0 for no limit.
	context int
	// end is the token that ends a text.
	end int32
	// canaries and texts turn canaries and whole texts into tokens.
	canaries, texts lexicon
}

// OpenModel reads and checks a file of coalmine export.
func OpenModel(file io.Reader) (*Model, error) {
	data, err := safetensors.Read(file, checkpoints.MaxFile)
	if err != nil {
		return nil, err
	}
	decoded, err := checkpoints.Decode(data)
	if err != nil {
		return nil, err
	}
	words, err := control.ExportedVocabulary(data)
	if err != nil {
		return nil, err
	}
	language, err := models.LanguageOf(decoded.Network)
	if err != nil {
		return nil, err
	}
	if language.Config().Separator != 0 {
		return nil, errors.New("the model is an encoder-decoder, which predicts targets of pairs; expected a language model (the experiment that trains on pairs measures them)")
	}
	if want := language.Config().Vocabulary; len(words) != want {
		return nil, fmt.Errorf("the model predicts %d tokens, but its vocabulary has %d: the file is damaged, or combined from two models", want, len(words))
	}
	vocabulary := text.NewVocabulary(words)
	read := newLexicon(vocabulary)
	return &Model{
		vocabulary: vocabulary, scorer: sync.OnceValues(decoded.NewScorer), context: language.Context(),
		end: text.End, canaries: read, texts: read,
	}, nil
}

// OpenFolder reads and checks a folder of Hugging Face's layout (package pretrained). The weights are read
// when they are needed.
func OpenFolder(path string) (*Model, error) {
	folder, err := pretrained.Open(os.DirFS(path), path)
	if err != nil {
		return nil, err
	}
	read := newLexicon(folder.Vocabulary)
	m := &Model{vocabulary: folder.Vocabulary, context: folder.Model.Context(), end: folder.End, canaries: read, texts: read}
	m.scorer = sync.OnceValues(func() (*models.Scorer, error) {
		scorer, err := folder.NewScorer()
		return scorer, errors.Join(err, folder.Close())
	})
	encoder := folder.Tokenizer.Encoder()
	m.canaries.words = func(line *Line) []string { return folder.Names(encoder, folder.AfterSpace(line.Text)) }
	m.texts.words = func(line *Line) []string { return folder.Names(encoder, line.Text) }
	return m, nil
}

// Run audits a model. The error lists every canary that does not fit the model's vocabulary or the prefix.
func (m *Model) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if err := o.check(m.vocabulary); err != nil {
		return nil, err
	}
	if err := o.complete(m.vocabulary); err != nil {
		return nil, err
	}
	encoded, err := encode(list, m.canaries, &o)
	if err != nil {
		return nil, err
	}
	if err := m.checkRoom(list, encoded); err != nil {
		return nil, err
	}
	scorer, err := m.scorer()
	if err != nil {
		return nil, err
	}
	a := audit{options: o, vocabulary: m.vocabulary, runner: tasks.NewRunner(), report: &Report{Canaries: make([]Canary, len(list))}}
	a.runner.Cores = goroutines.NewCores(runtime.GOMAXPROCS(0) - 1)
	a.model = a.given("model", "", nil)
	checkpoints.ShareScorer(a.runner, a.model, scorer)
	for length, group := range byLength(encoded) {
		if err := a.group(ctx, length, group); err != nil {
			return nil, fmt.Errorf("canaries of length %d: %w", length, err)
		}
	}
	a.report.name(list, encoded)
	a.report.judge(o)
	return a.report, nil
}

// checkRoom returns an error if a canary is longer than the model can read.
func (m *Model) checkRoom(list []Line, encoded []canary) error {
	for _, c := range encoded {
		if n := len(c.tokens); m.context != 0 && n > m.context {
			return list[c.place].fail("a canary of %d tokens; expected at most %d, the model's context", n, m.context)
		}
	}
	return nil
}

// name sets the lines, texts and words of the canaries, and marks the controls.
func (r *Report) name(list []Line, encoded []canary) {
	for i, c := range encoded {
		r.Canaries[i].Line, r.Canaries[i].Text, r.Canaries[i].Words = list[i].Number, list[i].Text, c.words
		r.Canaries[i].Control = list[i].Control
	}
}

// audit is one execution of Run.
type audit struct {
	options    Options
	vocabulary *text.Vocabulary
	runner     *tasks.Runner
	model      storage.Key
	report     *Report
}

// canary is a line of the list in tokens.
type canary struct {
	place  int // index in the list
	tokens []int32
	words  []string
}

// byLength yields the canaries by length, the shortest first. A task of an audit has canaries of one length.
func byLength(list []canary) func(yield func(int, []canary) bool) {
	return func(yield func(int, []canary) bool) {
		for length := range text.MaxSequence + 1 {
			group := slices.DeleteFunc(slices.Clone(list), func(c canary) bool { return len(c.tokens) != length })
			if len(group) > 0 && !yield(length, group) {
				return
			}
		}
	}
}

// given adds a node with outputs, and returns its key.
func (a *audit) given(kind, name string, blobs map[string][]byte) storage.Key {
	h := tasks.NewHasher("given " + kind)
	h.String(name)
	key := h.Sum()
	a.runner.Give(&tasks.RunnerNode{Spec: tasks.Spec{Key: key}, Blobs: blobs})
	return key
}

// group audits the canaries of one length.
func (a *audit) group(ctx context.Context, length int, group []canary) error {
	given, err := a.canaries(length, group)
	if err != nil {
		return err
	}
	if o := a.options; o.References > 0 {
		var ranks []randomsampling.Rank
		params := o.sampling(length, len(group))
		if err := a.run(ctx, randomsampling.Kind, params, given, randomsampling.RanksBlob, &ranks); err != nil {
			return err
		}
		for i, c := range group {
			a.report.Canaries[c.place].Ranked = ranks[i].CanaryOutcome(o.References)
		}
	}
	if o := a.options; o.SkewNormal > 0 {
		var estimates []skewnormal.Estimate
		if err := a.run(ctx, skewnormal.Kind, o.fit(length, len(group)), given, skewnormal.EstimatesBlob, &estimates); err != nil {
			return err
		}
		a.report.fitted(group, estimates)
	}
	if o := a.options; o.BeamWidth > 0 {
		var found []beamsearch.Extraction
		params := beamsearch.Params{Width: o.BeamWidth, Space: o.space(length), Prefix: o.Prefix, Count: len(group)}
		if err := a.run(ctx, beamsearch.Kind, params, given, beamsearch.ExtractionsBlob, &found); err != nil {
			return err
		}
		for i, c := range group {
			if a.report.Canaries[c.place].Extracted, err = found[i].CanaryOutcome(a.vocabulary); err != nil {
				return err
			}
		}
	}
	return nil
}

// canaries adds the canaries of one length, with the words in their space.
func (a *audit) canaries(length int, group []canary) (storage.Key, error) {
	data, err := json.Marshal(placements(group))
	if err != nil {
		return storage.Key{}, err
	}
	blobs := map[string][]byte{population.CanariesBlob: data}
	if space := a.options.space(length); space.NamesWords() {
		resolved, err := space.Resolve(a.vocabulary)
		if err != nil {
			return storage.Key{}, err
		}
		if blobs[canaries.SpacesBlob], err = json.Marshal([]canaries.Resolved{resolved}); err != nil {
			return storage.Key{}, err
		}
	}
	return a.given("canaries", string(data), blobs), nil
}

func placements(group []canary) []population.Placement {
	return lists.Make(len(group), func(i int) population.Placement {
		return population.Placement{Canary: population.Canary{Number: i, Tokens: group[i].tokens, Words: group[i].words}}
	})
}

// sampling returns the parameters of random sampling for canaries of one length.
func (o *Options) sampling(length, canaries int) randomsampling.Params {
	return randomsampling.Params{
		Seed: o.Seed, References: o.References, Space: o.space(length), Prefix: o.Prefix, Exact: o.Exact, Count: canaries,
	}
}

// bootstraps is the number of fits behind the standard error of a fitted exposure. It is the default of a run.
const bootstraps = 100

// fit returns the parameters of a skew-normal fit for canaries of one length.
func (o *Options) fit(length, canaries int) skewnormal.Params {
	return skewnormal.Params{
		Seed: o.Seed, References: o.SkewNormal, Bootstrap: bootstraps, Space: o.space(length), Prefix: o.Prefix, Count: canaries,
	}
}

// fitted sets the results of fits for the canaries of a group.
func (r *Report) fitted(group []canary, estimates []skewnormal.Estimate) {
	r.SkewNormal = cmp.Or(r.SkewNormal, new(skewnormal.Outcome))
	v := skewnormal.NewOutcome(estimates, func(int) bool { return true })
	r.SkewNormal.Highest = exposure.Higher(r.SkewNormal.Highest, exposure.ValueOf(v.Highest))
	r.SkewNormal.Fits = append(r.SkewNormal.Fits, v.Fits...)
	for i, c := range group {
		r.Canaries[c.place].Fitted = estimates[i].CanaryOutcome()
	}
}

// run executes an audit and decodes one of its blobs.
func (a *audit) run(ctx context.Context, kind tasks.Kind, params any, given storage.Key, blob string, into any) error {
	spec, err := tasks.NewSpec(kind, params,
		tasks.Input{Name: audits.ModelInput, Key: a.model}, tasks.Input{Name: audits.CanariesInput, Key: given})
	if err != nil {
		return err
	}
	node, err := a.runner.Run(ctx, kind, spec)
	if err != nil {
		return fmt.Errorf("%s: %w", kind.Name, err)
	}
	return json.Unmarshal(node.Blobs[blob], into)
}

// judge counts the memorized canaries, and compares them with the controls.
func (r *Report) judge(o Options) {
	count := func(yes func(*Canary) *bool) int {
		return lists.Count(r.Canaries, func(c Canary) bool { return !c.Control && *yes(&c) })
	}
	of := count(func(*Canary) *bool { return new(true) })
	if o.References > 0 {
		r.Controls = compareControls(r.Canaries)
		r.RandomSampling = &Memorized{Of: of, References: o.References, Memorized: count(func(c *Canary) *bool { return c.Memorized })}
	}
	if v := r.RandomSampling; v != nil && (r.Endpoint != nil || r.Command != nil) {
		v.MemorizedLow = new(count(func(c *Canary) *bool { return new(*c.RankHigh == 1) }))
		v.MemorizedHigh = new(count(func(c *Canary) *bool { return new(*c.RankLow == 1) }))
	}
	if o.BeamWidth > 0 {
		r.BeamSearch = &Memorized{Of: of, Width: o.BeamWidth, Memorized: count(func(c *Canary) *bool { return c.Found })}
	}
}

// compareControls compares canaries with controls. It returns nil without controls.
func compareControls(all []Canary) *Controls {
	var controls, others []float64
	for i := range all {
		switch {
		case all[i].Ranked.Exposure == nil:
		case all[i].Control:
			controls = append(controls, *all[i].Ranked.Exposure)
		default:
			others = append(others, *all[i].Ranked.Exposure)
		}
	}
	if len(controls) == 0 || len(others) == 0 {
		return nil
	}
	p, err := audits.MannWhitney(others, controls)
	if err != nil {
		return nil // the model's scores are broken, which its canaries show
	}
	return &Controls{Controls: len(controls), MeanControls: stat.Mean(controls, nil), MeanCanaries: stat.Mean(others, nil), P: p}
}
