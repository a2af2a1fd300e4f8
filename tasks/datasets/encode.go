package datasets

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// Encode splits a corpus into parts by example, takes the vocabulary from the
// training part, and writes each part in its tokens.
//
// Params: EncodeParams. Input "corpus": Import. Input "vocabulary" (optional): Encode of
// another corpus, whose vocabulary replaces the corpus's own. Words that a fault has altered are
// then unknown, as for a model from before the fault. Metrics: EncodeMetrics. Blobs:
//
//	vocabulary      see VocabularyBlob
//	train-00000 …   the stream of the training part; likewise test, validation
//	train-index     Index over the corpus's users, those without examples in the
//	                part included, so that a user has one number in all parts;
//	                likewise test, validation
//	train-groups    Grouped only: as GroupsBlob, those of the training part
var Encode = tasks.Kind{Name: "datasets/encode", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runEncode)}

// Inputs of Encode; VocabularyInput is optional.
const (
	CorpusInput     = "corpus"
	VocabularyInput = "vocabulary"
)

// EncodeParams are the parameters of Encode.
type EncodeParams struct {
	Seed uint64 `json:"seed"`
	// Level is the level of the corpus.
	Level text.Level `json:"level,omitzero"`
	// VocabularySize is the number of ordinary words, also of an input vocabulary, without specials
	// and labels of texts. It is 0 at the byte level, which has a fixed vocabulary, and the
	// tokenizer's number of tokens at the subword level.
	VocabularySize int `json:"vocabulary_size"`
	// TestFraction is the probability with which each example is in the test part, ValidationFraction that
	// with which each of the others is in the validation part.
	TestFraction       float64 `json:"test_fraction"`
	ValidationFraction float64 `json:"validation_fraction"`
	// TrainShare is the probability with which each example of the training part is used; the remaining
	// examples are in no stream. 0 uses all. The vocabulary comes from the whole part.
	TrainShare float64 `json:"train_share,omitempty"`
	// Grouped reports whether the corpus has groups.
	Grouped bool `json:"grouped,omitempty"`
	// Splits reports whether the corpus has its own splits; the fractions and the share then apply
	// only to the training split; see Origin.
	Splits bool `json:"splits,omitempty"`
}

// EncodeMetrics counts the users, examples and tokens of the parts.
type EncodeMetrics struct {
	Train      population.Counts `json:"train"`
	Test       population.Counts `json:"test"`
	Validation population.Counts `json:"validation"`
	// DistinctWords counts the distinct words of the training part; at a level with a fixed
	// vocabulary, all its symbols.
	DistinctWords int `json:"distinct_words"`
	// UnknownWords counts the words of the whole training part outside the vocabulary.
	UnknownWords int `json:"unknown_words"`
}

func (p *EncodeParams) check() error {
	if err := p.Level.Check(); err != nil {
		return err
	}
	switch fixed := p.Level.Scheme().Symbols != nil; {
	case fixed && p.VocabularySize != 0:
		return fmt.Errorf("vocabulary size is %d; expected none at the %s level, whose vocabulary is fixed", p.VocabularySize, p.Level)
	case !fixed && p.VocabularySize < 1:
		return fmt.Errorf("vocabulary size is %d; expected at least 1", p.VocabularySize)
	}
	return errors.Join(population.CheckFraction("test fraction", p.TestFraction), population.CheckFraction("validation fraction", p.ValidationFraction), checkTrainShare(p.TrainShare))
}

func runEncode(ctx context.Context, t *tasks.Task, params *EncodeParams) error {
	e := encoder{task: t, params: *params}
	if err := e.params.check(); err != nil {
		return tasks.Permanent(err)
	}
	if err := e.open(ctx); err != nil {
		return err
	}
	if err := e.chooseVocabulary(ctx); err != nil {
		return err
	}
	return e.writeParts(ctx)
}

// encoder divides a corpus into parts in two passes.
type encoder struct {
	task    *tasks.Task
	params  EncodeParams
	corpus  *population.Index
	words   []string     // the dictionary
	parts   []partNumber // of each example, in order of the source
	tokens  []int32      // of each word of the dictionary
	metrics EncodeMetrics
	// sequence is the length at which examples are cut.
	sequence int
	// outside holds the lengths of words, if words are examples; see bytesOutside.
	outside []int32
	bytes   []int32 // of a word
}

func (m *EncodeMetrics) counts(part partNumber) *population.Counts {
	return [...]*population.Counts{train: &m.Train, test: &m.Test, validation: &m.Validation}[part]
}

// open reads the corpus's metrics and index, and decides the parts.
func (e *encoder) open(ctx context.Context) (err error) {
	if e.corpus, err = population.ReadIndex(ctx, e.task, CorpusInput, CorpusIndexBlob); err != nil {
		return err
	}
	dictionary, err := e.task.Blob(ctx, CorpusInput, DictionaryBlob)
	if err != nil {
		return err
	}
	e.words = text.SplitLines(dictionary)
	e.sequence = e.corpus.Sequence
	e.tossCoins()
	if e.params.Splits {
		return readSplits(ctx, e.task, e.parts)
	}
	return nil
}

// tossCoins decides the part of every example: coins follow the order of the source, which differs
// from the order of the corpus.
func (e *encoder) tossCoins() {
	e.parts = make([]partNumber, e.corpus.Counts().Examples)
	coins := newPartCoins(e.params.Seed, e.params.TestFraction, e.params.ValidationFraction, e.params.TrainShare)
	for i := range e.parts {
		e.parts[i] = coins.next()
	}
}

// chooseVocabulary decides the tokens and writes the vocabulary.
func (e *encoder) chooseVocabulary(ctx context.Context) error {
	ordinary, err := e.ordinaryWords(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]int32, len(ordinary))
	for i, w := range ordinary {
		known[w] = int32(text.FirstWord + i)
	}
	e.tokens = make([]int32, len(e.words))
	for w, content := range e.words {
		e.tokens[w] = text.Unknown
		if token, ok := known[content]; ok {
			e.tokens[w] = token
		}
		if text.EndsSource(content) {
			e.tokens[w] = text.Separator
		}
	}
	return e.task.Put(ctx, text.VocabularyBlob, text.JoinLines(append(text.Specials(), ordinary...)))
}

// ordinaryWords returns the ordinary words of the vocabulary in order.
func (e *encoder) ordinaryWords(ctx context.Context) ([]string, error) {
	scheme := e.params.Level.Scheme()
	symbols := scheme.Symbols
	if !scheme.Fixed() {
		return e.countedWords(ctx)
	}
	unknown := text.Specials()[text.Unknown]
	words := slices.DeleteFunc(slices.Clone(e.words), func(w string) bool { return text.EndsSource(w) || w == unknown })
	if scheme.Subwords {
		e.metrics.DistinctWords = len(words)
		return words, e.checkSubwords(len(words))
	}
	if !slices.Equal(words, symbols) {
		return nil, tasks.Permanent(fmt.Errorf("the corpus has %d distinct words that are not the %d symbols of the %s level; it was not imported at the %s level", len(words), len(symbols), e.params.Level, e.params.Level))
	}
	e.metrics.DistinctWords = len(symbols)
	return symbols, nil
}

// checkSubwords compares the number of tokens with the given size.
func (e *encoder) checkSubwords(tokens int) error {
	if tokens != e.params.VocabularySize {
		return tasks.Permanent(fmt.Errorf("the tokenizer has %d tokens; set vocabulary.size, now %d, to that", tokens, e.params.VocabularySize))
	}
	return nil
}

// countedWords returns the vocabulary from the counts of the training part.
func (e *encoder) countedWords(ctx context.Context) ([]string, error) {
	counts := make([]int64, len(e.words))
	err := e.eachExample(ctx, func(x sourceExample) error {
		if part := e.parts[x.ordinal]; part == train || part == unused {
			for _, w := range x.words {
				counts[w]++
			}
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	for w, word := range e.words {
		if text.EndsSource(word) || source.IsLabel(word) {
			counts[w] = 0
		}
	}
	found := mostFrequent(e.words, counts, len(counts))
	e.metrics.DistinctWords = len(found)
	if e.task.Has(VocabularyInput) {
		return e.givenWords(ctx, counts)
	}
	size := e.params.VocabularySize
	if size > len(found) {
		return nil, tasks.Permanent(fmt.Errorf("the training part has only %d distinct words; set vocabulary.size, now %d, to at most that", len(found), size))
	}
	for _, w := range found[size:] {
		e.metrics.UnknownWords += int(counts[w])
	}
	return append(lists.Filter(e.words, source.IsLabel), text.WordsAt(e.words, found[:size])...), nil
}

// givenWords returns the words of the input vocabulary.
func (e *encoder) givenWords(ctx context.Context, counts []int64) ([]string, error) {
	v, err := text.ReadVocabulary(ctx, e.task, VocabularyInput)
	if err != nil {
		return nil, err
	}
	if v.Ordinary() != e.params.VocabularySize {
		return nil, tasks.Permanent(fmt.Errorf("the vocabulary that is given has %d words; expected %d", v.Ordinary(), e.params.VocabularySize))
	}
	e.metrics.UnknownWords = unknownWords(e.words, counts, v.Words[text.FirstWord:])
	return v.Words[text.FirstWord:], nil
}

// unknownWords counts the occurrences of words outside a vocabulary.
func unknownWords(words []string, counts []int64, vocabulary []string) int {
	known := setOf(vocabulary)
	unknown := 0
	for w, n := range counts {
		if !known[words[w]] {
			unknown += int(n)
		}
	}
	return unknown
}

func (e *encoder) writeParts(ctx context.Context) error {
	var writers [len(population.Parts)]*population.PartWriter
	for j, part := range population.Parts {
		writers[j] = population.NewPartWriter(ctx, e.task, part, e.sequence)
	}
	var groups []uint32 // of the training part
	err := e.eachExample(ctx, func(x sourceExample) error {
		if e.parts[x.ordinal] == unused {
			return nil
		}
		part := e.parts[x.ordinal]
		return e.pieces(x, func(tokens []int32) error {
			if e.params.Grouped && part == train {
				groups = append(groups, x.group)
			}
			return writers[part].Add(tokens)
		})
	}, func() {
		for _, w := range writers {
			w.EndUser()
		}
	})
	if err != nil {
		return err
	}
	for j, part := range population.Parts {
		index, err := writers[j].Close()
		if err != nil {
			return err
		}
		if err := e.task.Put(ctx, population.IndexBlob(part), index.Encode()); err != nil {
			return err
		}
		*e.metrics.counts(partNumber(j)) = index.Counts()
	}
	if e.params.Grouped {
		if err := population.WriteGroups(ctx, e.task, population.Train, groups); err != nil {
			return err
		}
	}
	return e.task.SetMetrics(e.metrics)
}

// pieces calls do with the tokens of each example made from an example of the source.
func (e *encoder) pieces(x sourceExample, do func(tokens []int32) error) error {
	if e.outside != nil {
		return e.eachOutside(x.words, do)
	}
	for i, w := range x.words {
		x.words[i] = e.tokens[w]
	}
	return do(x.words)
}

// sourceExample is an example in a corpus.
type sourceExample struct {
	user    int
	ordinal int     // its place in the source, from 0
	words   []int32 // valid only during the call, which may change them
	group   uint32  // number within the user; 0 without groups
}

// eachExample calls example with each example of the corpus, and endUser, if not nil, after each
// user.
func (e *encoder) eachExample(ctx context.Context, example func(sourceExample) error, endUser func()) error {
	scan := population.Scan(ctx, e.task, CorpusInput, population.Corpus, e.corpus)
	words := make([]int32, 0, e.corpus.Sequence)
	for u, extent := range e.corpus.Extents {
		ordinal := -1
		for range extent.Examples {
			gap, err := population.ReadNumber(scan)
			if err != nil {
				return err
			}
			if words, err = population.ReadExample(scan, words, e.corpus.Sequence, len(e.words)); err != nil {
				return err
			}
			ordinal += int(gap) + 1
			if ordinal < 0 || ordinal >= len(e.parts) {
				return fmt.Errorf("example %d of a source with %d: %w", ordinal, len(e.parts), storage.ErrCorrupt)
			}
			group, err := e.groupOf(scan)
			if err != nil {
				return err
			}
			if err := example(sourceExample{u, ordinal, words, group}); err != nil {
				return err
			}
		}
		if endUser != nil {
			endUser()
		}
		e.task.Progress(tasks.Progress{Done: int64(u + 1), Total: int64(len(e.corpus.Extents))})
	}
	return nil
}

// groupOf reads the group of the example that was read last.
func (e *encoder) groupOf(scan io.ByteReader) (uint32, error) {
	if !e.params.Grouped {
		return 0, nil
	}
	group, err := population.ReadNumber(scan)
	return uint32(group), err
}

func setOf(words []string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// mostFrequent returns the numbers of the size words with the highest counts, ties by the word in
// byte order. Words that never occur are left out, so there may be fewer.
func mostFrequent(words []string, counts []int64, size int) []uint32 {
	var found []uint32
	for w, n := range counts {
		if n > 0 {
			found = append(found, uint32(w))
		}
	}
	slices.SortFunc(found, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(words[a], words[b]))
	})
	return found[:min(size, len(found))]
}

// SplitsBlob of a corpus has the part of each example of the source, in order, if the data have
// their own splits: uvarints, alternating between a part (0 train, 1 test, 2 validation) and its
// number of consecutive examples.
const SplitsBlob = "splits"

// partRuns are the parts of examples, one after another.
type partRuns struct {
	encoded []byte
	part    partNumber
	length  uint64 // length of the run not yet encoded
}

func (r *partRuns) add(part partNumber) {
	if part != r.part {
		r.flush()
		r.part = part
	}
	r.length++
}

func (r *partRuns) flush() {
	if r.length > 0 {
		r.encoded = binary.AppendUvarint(append(r.encoded, byte(r.part)), r.length)
		r.length = 0
	}
}

// readSplits replaces the drawn parts by the data's own splits. An example of the training split
// keeps its drawn part.
func readSplits(ctx context.Context, t *tasks.Task, parts []partNumber) error {
	encoded, err := t.Blob(ctx, CorpusInput, SplitsBlob)
	if err != nil {
		return err
	}
	at := uint64(0)
	for len(encoded) > 0 {
		part := partNumber(encoded[0])
		length, n := binary.Uvarint(encoded[1:])
		if n <= 0 || part > validation || length > uint64(len(parts))-at {
			return fmt.Errorf("splits of a corpus: %w", storage.ErrCorrupt)
		}
		for i := range parts[at : at+length] {
			parts[at+uint64(i)] = parts[at+uint64(i)].within(part)
		}
		at, encoded = at+length, encoded[1+n:]
	}
	if at != uint64(len(parts)) {
		return fmt.Errorf("splits of %d examples of a corpus with %d: %w", at, len(parts), storage.ErrCorrupt)
	}
	return nil
}

// within returns the part of an example with drawn part p in a split: the draw counts only in the
// training split.
func (p partNumber) within(split partNumber) partNumber {
	if split != train {
		return split
	}
	return p
}
