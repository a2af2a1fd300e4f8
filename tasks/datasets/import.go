package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/subwords"
)

// Import reads a source and writes its corpus: the examples as word numbers, grouped by user. Users
// are in order of first appearance, a user's examples in order of the source or, if the reading is
// Timed, of their time.
//
// Params: ImportParams. No inputs. Metrics: ImportMetrics. Blobs:
//
//	corpus-00000 …  the corpus stream; before each example a uvarint: how many
//	                examples of the source lie between it and the user's one before,
//	                modulo 2^64 where that one stands after it in the source; after each
//	                another, its group among the user's, where the reading has groups
//	corpus-index    Index over the users
//	dictionary      the distinct words, one a line, in order of first appearance;
//	                at levels that fix them all symbols, in their order; where
//	                something is predicted of texts, all its labels before the words
//	users           JSON array of the users' names
//	splits          see SplitsBlob; only where splits of the data's own are parts
//
// For pairs, the dictionary has the separator too.
var Import = tasks.Kind{Name: "datasets/import", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runImport)}

// Names of the blobs of a corpus in addition to its stream and index.
const (
	DictionaryBlob = "dictionary"
	UsersBlob      = "users"
)

// CorpusIndexBlob is the name of a corpus's index.
var CorpusIndexBlob = IndexBlob(corpusPart)

// ImportParams are the parameters of Import.
type ImportParams struct {
	// Sources are the digests of the files, in reading order.
	Sources []storage.Digest `json:"sources"`
	Limits  Limits           `json:"limits"`
	Reading
	FaultParams
}

func (p *ImportParams) check() error {
	if err := p.Reading.check(); err != nil {
		return err
	}
	if _, err := p.fileSplits(len(p.Sources)); err != nil {
		return err
	}
	return p.FaultParams.check(p.Level)
}

// ImportMetrics counts the contents of a source.
type ImportMetrics struct {
	Counts
	// CutExamples counts examples longer than a sequence; Words counts words after the cut.
	CutExamples int `json:"cut_examples"`
	// DistinctWords is counted after the cut; at the byte level it is Bytes.
	DistinctWords int `json:"distinct_words"`
	// Unlabelled counts images without a label.
	Unlabelled int `json:"unlabelled,omitempty"`
	// Faults counts the examples in which faults were planted; nil without faults. The counts above
	// are taken after the faults.
	Faults []PlantedFault `json:"faults,omitempty"`
	// Skipped counts faulty records; nil if no record was skipped.
	Skipped *Skipped `json:"skipped,omitempty"`
}

func runImport(ctx context.Context, t *tasks.Task, p *ImportParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	if err := p.openTokenizer(ctx, t); err != nil {
		return err
	}
	imp := importer{sorter: tempfiles.NewSorter(), names: newNumbering(), lexicon: newLexicon(p.Reading, p.FaultParams)}
	defer imp.sorter.Close()
	if p.Timed {
		imp.byTime = tempfiles.NewSorter()
		defer imp.byTime.Close()
	}
	if p.Grouped {
		imp.groups = newGroupNumbering()
	}
	files := importedFiles{ctx: ctx, task: t}
	for rec, err := range p.records(ctx, files.of(p.Sources), p.Limits, &imp.skipped) {
		if err != nil {
			return files.classify(err)
		}
		if err := imp.add(rec); err != nil {
			return err
		}
		if imp.examples%4096 == 0 {
			t.Progress(tasks.Progress{Done: int64(imp.examples)})
		}
	}
	return imp.write(ctx, t)
}

// openTokenizer reads the tokenizer of the subword level.
func (p *ImportParams) openTokenizer(ctx context.Context, t *tasks.Task) error {
	if !p.Level.Scheme().Subwords {
		return nil
	}
	file, err := t.Imported(ctx, p.Tokenizer)
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	tokenizer, err := subwords.Parse(data)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("tokenizer %s: %w", p.Tokenizer.Short(), err))
	}
	p.Reading = p.WithTokenizer(tokenizer)
	return nil
}

// importedFiles opens the sources of a task.
type importedFiles struct {
	ctx  context.Context
	task *tasks.Task
	// damage is the error of the last closed source, if its content has changed since the import.
	damage error
}

// of names the sources by digest, which is also their name in messages.
func (x *importedFiles) of(sources []storage.Digest) []File {
	var files []File
	for _, d := range sources {
		files = append(files, File{
			Name: "source " + d.Short(),
			Open: func() (io.ReadCloser, error) {
				r, err := x.task.Imported(x.ctx, d)
				return &importedFile{r, x}, err
			},
		})
	}
	return files
}

// importedFile reads the remaining source on Close, because the digest is known only at the end.
type importedFile struct {
	io.ReadCloser
	files *importedFiles
}

func (f *importedFile) Close() error {
	if f.files.ctx.Err() == nil {
		_, f.files.damage = io.Copy(io.Discard, f.ReadCloser)
	}
	return f.ReadCloser.Close()
}

// classify marks faults of the source as permanent. Bytes damaged or lost in transfer are not
// faults of the source.
func (x *importedFiles) classify(err error) error {
	if _, ok := errors.AsType[*SourceError](err); !ok {
		return err
	}
	if x.damage != nil {
		return fmt.Errorf("%w (after %w)", x.damage, err)
	}
	return tasks.Permanent(err)
}

// importer collects the examples of a source by user.
type importer struct {
	sorter   *tempfiles.Sorter // sorts by user
	byTime   *tempfiles.Sorter // examples in order of time; nil for the order of the source
	names    *numbering
	groups   *groupNumbering // nil without groups
	lexicon  *lexicon
	users    []importedUser
	examples int
	cut      int
	example  []byte
	record   []byte
	// unlabelled counts images without a label.
	unlabelled int
	skipped    Skipped
	parts      partRuns
}

// importedUser counts a user's examples before the corpus is written.
type importedUser struct {
	extent Extent // without Offset
	last   int    // ordinal in the source of the user's last placed example
}

func (imp *importer) add(rec Record) error {
	u := imp.names.id([]byte(rec.User))
	if u > math.MaxUint32 {
		return tasks.Permanent(fmt.Errorf("the source has more than %d users", math.MaxUint32))
	}
	words, cut := imp.lexicon.sentence(int(u), rec.Text)
	if cut {
		imp.cut++
	}
	if rec.Unlabelled {
		imp.unlabelled++
	}
	imp.parts.add(rec.part)
	if int(u) == len(imp.users) {
		imp.users = append(imp.users, importedUser{last: -1})
	}
	imp.example = appendExample(imp.example[:0], words)
	if imp.groups != nil {
		imp.example = binary.AppendUvarint(imp.example, uint64(imp.groups.id(u, rec.Group)))
	}
	defer func() { imp.examples++ }()
	if imp.byTime != nil {
		return imp.later(u, rec.Time, imp.example)
	}
	return imp.place(u, imp.examples, imp.example)
}

// place appends an encoded example to those of a user. ordinal is its position in the source.
func (imp *importer) place(u uint64, ordinal int, example []byte) error {
	user := &imp.users[u]
	words, _ := binary.Uvarint(example)
	imp.record = binary.AppendUvarint(imp.record[:0], uint64(ordinal-user.last-1))
	imp.record = append(imp.record, example...)
	user.last = ordinal
	user.extent.Examples++
	user.extent.Words += int(words)
	user.extent.Length += int64(len(imp.record))
	return imp.sorter.Add(u, imp.record)
}

func (imp *importer) write(ctx context.Context, t *tasks.Task) error {
	if imp.byTime != nil {
		if err := imp.placeTimed(); err != nil {
			return err
		}
	}
	w := newStreamWriter(ctx, t, corpusPart)
	for record, err := range imp.sorter.Sorted() {
		if err == nil {
			_, err = w.Write(record)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	index := imp.index()
	if err := t.Put(ctx, CorpusIndexBlob, index.encode()); err != nil {
		return err
	}
	if err := t.Put(ctx, DictionaryBlob, joinLines(imp.lexicon.words.all)); err != nil {
		return err
	}
	if err := t.PutJSON(ctx, UsersBlob, imp.names.all); err != nil {
		return err
	}
	if imp.parts.flush(); imp.lexicon.reading.Divides() {
		if err := t.Put(ctx, SplitsBlob, imp.parts.encoded); err != nil {
			return err
		}
	}
	return t.SetMetrics(ImportMetrics{
		Counts:        index.Counts(),
		CutExamples:   imp.cut,
		DistinctWords: imp.lexicon.distinct(),
		Unlabelled:    imp.unlabelled,
		Faults:        imp.lexicon.found(),
		Skipped:       imp.skipped.some(),
	})
}

func (imp *importer) index() *Index {
	extents := make([]Extent, len(imp.users))
	offset := int64(0)
	for u, user := range imp.users {
		extents[u] = user.extent
		extents[u].Offset = offset
		offset += user.extent.Length
	}
	return newIndex(shardBytes, imp.lexicon.reading.Longest(), extents)
}

// numbering gives names numbers from 0 in order of first appearance.
type numbering struct {
	ids map[string]uint64
	all []string
}

func newNumbering() *numbering { return &numbering{ids: map[string]uint64{}} }

func (n *numbering) id(name []byte) uint64 {
	id, ok := n.ids[string(name)]
	if !ok {
		id = uint64(len(n.all))
		owned := string(name)
		n.ids[owned] = id
		n.all = append(n.all, owned)
	}
	return id
}

// lexicon turns texts into sentences of word numbers, one after another in order of the source.
type lexicon struct {
	reading     Reading
	planted     FaultParams
	cutSentence func(l *lexicon, text string) (cut bool) // function of the level
	faults      *planter                                 // nil without faults
	words       *numbering
	separator   uint32 // number of the separator of pairs
	noLabel     uint32 // number for a missing label of an image
	labels      int    // count of labels of texts, which have the first numbers
	tokenizer   Tokenizer
	subwords    *subwords.Encoder // at the subword level
	alphabet    subwords.Alphabet // alphabet of its tokens
	misreading  []string          // words of a text with faults
	sentenced   []uint32
}

func newLexicon(r Reading, f FaultParams) *lexicon {
	r = r.Complete()
	scheme := r.Level.Scheme()
	l := &lexicon{reading: r, planted: f, cutSentence: scheme.sentence, words: newNumbering(), tokenizer: Tokenizer{first: r.Rules.first()}}
	l.words.all = scheme.Symbols
	if scheme.Subwords {
		l.subwords, l.words.all = r.tokenizer.Encoder(), r.tokenizer.Names(specials)
		l.alphabet = subwords.AlphabetOf(l.words.all)
		for id, name := range l.words.all {
			l.words.ids[name] = uint64(id)
		}
	}
	if words := r.LabelWords(); len(words) > 0 {
		l.words.all, l.labels = words, len(words)
	}
	if r.Pairs {
		l.separator = l.addSpecial(Separator)
	}
	if r.Unlabelled {
		l.noLabel = l.addSpecial(Unknown)
	}
	l.restart()
	return l
}

// restart resets the lexicon to the beginning of the source. Words keep their numbers.
func (l *lexicon) restart() {
	if len(l.planted.Faults) > 0 {
		l.faults = newPlanter(l.planted)
		l.faults.first = l.tokenizer.first
	}
}

// addSpecial numbers a special token among the words: after the symbols of a level with fixed
// symbols, otherwise first. No word of a text equals its name.
func (l *lexicon) addSpecial(token int) uint32 {
	l.words.all = append(l.words.all[:len(l.words.all):len(l.words.all)], specials[token])
	return uint32(len(l.words.all) - 1)
}

// distinct returns the number of words so far.
func (l *lexicon) distinct() int {
	if l.reading.Pairs || l.reading.Unlabelled {
		return len(l.words.all) - 1
	}
	return len(l.words.all) - l.labels
}

// sentence returns the first words of a user's text, at most a sequence, valid until the next call,
// and whether there were more. Users are numbered in order of first appearance. For a pair it
// returns the words of both texts with the separator between them.
func (l *lexicon) sentence(user int, text string) (words []uint32, cut bool) {
	l.sentenced = l.sentenced[:0]
	unlabelled := l.reading.Unlabelled && len(text) == l.reading.Image.Pixels()
	if unlabelled {
		text = "\x00" + text
	}
	if l.faults != nil {
		l.faults.next(user)
		text = l.faults.image(l.reading.Image, unlabelled, l.faults.text(text))
	}
	switch {
	case l.reading.Pairs:
		cut = l.pair(text)
	case l.labels > 0:
		cut = l.labelled(text)
	default:
		cut = l.cutSentence(l, text)
	}
	if unlabelled {
		l.sentenced[0] = l.noLabel
	}
	return l.sentenced, cut
}

// misread appends the sentence of a text at the word level after faults.
func (l *lexicon) misread(text string) (cut bool) {
	l.tokenizer.keepCase = l.faults.keepsCase(text)
	l.misreading = l.misreading[:0]
	for w := range l.tokenizer.Words(text) {
		l.misreading = append(l.misreading, string(w))
	}
	l.tokenizer.keepCase = false
	words := l.faults.words(l.misreading)
	kept := words[:min(len(words), l.reading.Sequence)]
	for _, w := range kept {
		l.sentenced = append(l.sentenced, uint32(l.words.id([]byte(w))))
	}
	return len(kept) < len(words)
}

// found returns the counts of planted faults.
func (l *lexicon) found() []PlantedFault {
	if l.faults == nil {
		return nil
	}
	return l.faults.found()
}

// joinLines ends every word with a newline; no word holds one.
func joinLines(words []string) []byte {
	if len(words) == 0 {
		return nil
	}
	return []byte(strings.Join(words, "\n") + "\n")
}

func splitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
