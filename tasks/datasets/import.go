package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"coalmine/internal/lists"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
)

// Import reads a source and writes its corpus: the examples as word numbers, grouped by user. Users
// are in order of first appearance, a user's examples in order of the source or, if the reading is
// Timed, of their time.
//
// Params: ImportParams. No inputs. Metrics: ImportMetrics. Blobs:
//
//	corpus-00000 …  the corpus stream; before each example a uvarint: the number of
//	                examples of the source between the user's previous example and
//	                this one, modulo 2^64 if the previous one comes later in the
//	                source; after each example another uvarint: the number of its
//	                group within the user, if the reading has groups
//	corpus-index    Index over the users
//	dictionary      the distinct words, one a line, in order of first appearance;
//	                at levels with fixed symbols, all of these in their order; if
//	                labels of texts are predicted, all labels before the words
//	users           JSON array of the users' names
//	splits          see SplitsBlob; only if the parts are the splits of the data
//
// For pairs, the dictionary has the separator too.
var Import = tasks.Kind{Name: "datasets/import", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runImport)}

// Names of the blobs of a corpus in addition to its stream and index.
const (
	DictionaryBlob = "dictionary"
	UsersBlob      = "users"
)

// CorpusIndexBlob is the name of a corpus's index.
var CorpusIndexBlob = population.IndexBlob(population.Corpus)

// ImportParams are the parameters of Import.
type ImportParams struct {
	// Sources are the digests of the files, in reading order.
	Sources []storage.Digest `json:"sources"`
	Limits  source.Limits    `json:"limits"`
	source.Reading
	faults.Params
}

func (p *ImportParams) check() error {
	if err := p.Reading.Check(); err != nil {
		return err
	}
	if _, err := p.FileSplits(len(p.Sources)); err != nil {
		return err
	}
	return p.Params.Check(p.Level)
}

// ImportMetrics counts the contents of a source.
type ImportMetrics struct {
	population.Counts
	// CutExamples counts examples longer than a sequence; Words counts words after the cut.
	CutExamples int `json:"cut_examples"`
	// DistinctWords is counted after the cut; at the byte level it is Bytes.
	DistinctWords int `json:"distinct_words"`
	// Unlabelled counts images without a label.
	Unlabelled int `json:"unlabelled,omitempty"`
	// Faults counts the examples in which faults were planted; nil without faults. The counts above
	// are taken after the faults.
	Faults []faults.Count `json:"faults,omitempty"`
	// Skipped counts faulty records; nil if no record was skipped.
	Skipped *source.Skipped `json:"skipped,omitempty"`
}

func runImport(ctx context.Context, t *tasks.Task, p *ImportParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	if err := p.openTokenizer(ctx, t); err != nil {
		return err
	}
	imp := importer{sorter: tempfiles.NewSorter(), names: newNumbering(), lexicon: newLexicon(p.Reading, p.Params)}
	defer imp.sorter.Close()
	if p.Timed {
		imp.byTime = tempfiles.NewSorter()
		defer imp.byTime.Close()
	}
	if p.Grouped {
		imp.groups = newGroupNumbering()
	}
	files := importedFiles{ctx: ctx, task: t}
	for rec, err := range p.Read(ctx, files.of(p.Sources), p.Limits, &imp.skipped) {
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
func (x *importedFiles) of(sources []storage.Digest) []source.File {
	return lists.Map(sources, func(d storage.Digest) source.File {
		return source.File{Name: "source " + d.Short(), Open: func() (io.ReadCloser, error) {
			r, err := x.task.Imported(x.ctx, d)
			return &importedFile{r, x}, err
		}}
	})
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
	if _, ok := errors.AsType[*source.Error](err); !ok {
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
	skipped    source.Skipped
	parts      partRuns
}

// importedUser counts a user's examples before the corpus is written.
type importedUser struct {
	extent population.Extent // without Offset
	last   int               // ordinal in the source of the user's last placed example
}

func (imp *importer) add(rec source.Record) error {
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
	imp.parts.add(numberOf(rec.Part))
	if int(u) == len(imp.users) {
		imp.users = append(imp.users, importedUser{last: -1})
	}
	imp.example = population.AppendExample(imp.example[:0], words)
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
	w := population.NewStreamWriter(ctx, t, population.Corpus)
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
	if err := t.Put(ctx, CorpusIndexBlob, index.Encode()); err != nil {
		return err
	}
	if err := t.Put(ctx, DictionaryBlob, text.JoinLines(imp.lexicon.words.all)); err != nil {
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
		Skipped:       imp.skipped.Some(),
	})
}

func (imp *importer) index() *population.Index {
	extents := make([]population.Extent, len(imp.users))
	offset := int64(0)
	for u, user := range imp.users {
		extents[u] = user.extent
		extents[u].Offset = offset
		offset += user.extent.Length
	}
	return population.NewIndex(imp.lexicon.reading.Longest(), extents)
}

// timeKey returns a key with the order of the numbers.
func timeKey(t float64) uint64 {
	bits := math.Float64bits(t + 0) // -0 becomes 0
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

// later keeps an example until all have been read, to order users' examples by time.
func (imp *importer) later(user uint64, at float64, example []byte) error {
	record := binary.AppendUvarint(nil, user)
	record = binary.AppendUvarint(record, uint64(imp.examples))
	return imp.byTime.Add(timeKey(at), append(record, example...))
}

// placeTimed places the kept examples in order of time.
func (imp *importer) placeTimed() error {
	for record, err := range imp.byTime.Sorted() {
		if err != nil {
			return err
		}
		user, n := binary.Uvarint(record)
		ordinal, m := binary.Uvarint(record[n:])
		if err := imp.place(user, int(ordinal), record[n+m:]); err != nil {
			return err
		}
	}
	return nil
}

// ReadImportedEmbeddings reads the vectors in the imported sources of a task, with the same checks
// as at import.
func ReadImportedEmbeddings(ctx context.Context, t *tasks.Task, sources []storage.Digest, limits source.Limits) (*source.Embeddings, error) {
	files := importedFiles{ctx: ctx, task: t}
	e, err := source.ReadEmbeddings(ctx, files.of(sources), limits)
	return e, files.classify(err)
}
