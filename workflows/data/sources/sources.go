// Package sources finds the files that data.source names, reads them, and uploads them. A source is
//
//   - a file of JSON lines or of another form of texts, plain or compressed;
//   - a directory: the files directly in it with names that end in .jsonl or, if there are
//     none, in the ending of one other form, perhaps with that of a compression, in byte
//     order of their names. Other and hidden files are ignored; a subdirectory that
//     is not hidden is an error, so that no data is missed silently. But a directory with
//     only subdirectories is divided: each of them is a split of the data;
//   - a directory of text files, a folder of them or one for each user, which is read, uploaded
//     and identified by a run as one tar archive;
//   - store:NAME, a source that has been imported into the store under that name;
//   - s3://bucket/key, which is a file, or s3://bucket/prefix/, which is a
//     directory.
//
// The name of a source ends here: a run identifies its files by their digests.
//
//	source, err := sources.LocalFinder{Folder: "experiments"}.Find(ctx, "texts/", "")
//	facts, err := source.Survey(ctx, limits, recipes) // and learns the digests
//	err = source.Upload(ctx, api)                     // the missing objects
package sources

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

// Finder finds the source that data.source names, within the permissions of a reader.
type Finder interface {
	// Find returns the files of a source. digest is data.sha256, or "". The error is a *source.Error if the
	// name is at fault.
	Find(ctx context.Context, name, digest string) (*Source, error)
}

// Text is a Finder in memory. It is the only file of every source.
type Text []byte

// Find implements Finder.
func (t Text) Find(_ context.Context, name, _ string) (*Source, error) {
	return InMemory(name, t), nil
}

// Source is a list of files that are read one after another.
type Source struct {
	// Name is data.source, unchanged.
	Name string
	// Files are in the order in which they are read, at least one.
	Files []*File
	// divided reports whether the files are in a subdirectory for each split.
	divided bool
	// hint ends errors about a directory with data files and text files, which is not a source of texts. It
	// is otherwise empty.
	hint string
}

// File is one file of a source.
type File struct {
	// Name is its path or URL, for messages.
	Name string
	// Size is the number of stored bytes, 0 if it is unknown.
	Size int64
	// Digest is set once Survey or Read has read the file.
	Digest storage.Digest
	// Split is the split in the name of the file or of its subdirectory, or "".
	Split string
	// Open opens the stored file, compressed or not.
	Open func(context.Context) (io.ReadCloser, error)
}

// maxFiles bounds the files of a directory, because a run's record names every file.
const maxFiles = 5000

// Ends of the names of files of a directory that may belong to the source.
const linesEnd = ".jsonl"

var (
	otherEnds      = []string{".csv", ".tsv", ".parquet", ".sqlite", ".xml", ".json"}
	compressedEnds = []string{".gz", ".zst", ".xz", ".lzma"}
)

// formEnd returns the end of a name that determines the form of a file, or "" if the file is not data.
func formEnd(name string) string {
	if isHidden(name) {
		return ""
	}
	for _, end := range compressedEnds {
		name = strings.TrimSuffix(name, end)
	}
	end := path.Ext(name)
	if end == linesEnd || slices.Contains(otherEnds, end) {
		return end
	}
	return ""
}

// isData reports whether a file of a directory may belong to the source.
func isData(name string) bool { return formEnd(name) != "" }

// ofOneForm returns the files of JSON lines or, if there are none, those of the only other form.
func ofOneForm(directory string, files []*File) ([]*File, error) {
	byForm := map[string][]*File{}
	for _, f := range files {
		end := formEnd(path.Base(filepath.ToSlash(f.Name)))
		byForm[end] = append(byForm[end], f)
	}
	if lines := byForm[linesEnd]; len(lines) > 0 || len(files) == 0 {
		return lines, nil
	}
	if len(byForm) > 1 {
		return nil, fault(directory, "holds files of several forms: %s; expected one form: move the other files elsewhere", strings.Join(slices.Sorted(maps.Keys(byForm)), ", "))
	}
	return files, nil
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

// newDirectory makes a source of the files of a directory, sorted by name.
func newDirectory(name string, files []*File) (*Source, error) {
	files, err := ofOneForm(name, files)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fault(name, "holds no data: expected files of JSON lines with names ending in .jsonl, .jsonl.gz or .jsonl.zst, or files of one other form: %s; or, on this machine, text files with names ending in %s", strings.Join(otherEnds, ", "), forms.TextEnd)
	}
	if len(files) > maxFiles {
		return nil, fault(name, "holds %d data files; expected at most %d: concatenate some of them", len(files), maxFiles)
	}
	for _, f := range files {
		if shard := splitName.FindStringSubmatch(path.Base(filepath.ToSlash(f.Name))); f.Split == "" && shard != nil {
			f.Split = shard[1]
		}
	}
	return &Source{Name: name, Files: files}, nil
}

// splitName matches the file names of a split in Hugging Face's datasets, such as train-00000-of-00004.parquet.
var splitName = regexp.MustCompile(`^([a-z][a-z0-9_]*)-[0-9]{5}-of-[0-9]{5}\.`)

// newSource makes a source of the files of a directory or, if it has only inner directories, of their
// files; each inner directory is then a split. list returns the name of an inner directory for messages,
// its files and its own inner directories.
func newSource(name string, files []*File, inner []string, list func(split string) (string, []*File, []string, error)) (*Source, error) {
	if len(files) > 0 && len(inner) > 0 {
		return nil, subdirectory(name, inner[0])
	}
	for _, split := range inner {
		below, found, deeper, err := list(split)
		if err != nil {
			return nil, err
		}
		if len(deeper) > 0 {
			return nil, subdirectory(below, deeper[0])
		}
		for _, f := range found {
			f.Split = split
		}
		files = append(files, found...)
	}
	s, err := newDirectory(name, files)
	if err == nil {
		s.divided = len(inner) > 0
	}
	return s, err
}

// Splits returns the splits of the files, in their order, or nil if no file has a split.
func (s *Source) Splits() []string {
	splits := lists.Map(s.Files, func(f *File) string { return f.Split })
	if slices.Equal(splits, make([]string, len(splits))) {
		return nil
	}
	return splits
}

// check returns an error if the source is divided and no training split is chosen.
func (s *Source) check(reading source.Reading) error {
	if !s.divided || reading.Named() {
		return nil
	}
	splits := slices.Compact(s.Splits())
	return fault(s.Name, "has the subdirectories %s, which are read as splits of the data: choose the one to train on, such as data.split: %s (--split), or move the files up%s", strings.Join(splits, ", "), splits[len(splits)-1], s.hint)
}

func subdirectory(directory, inner string) error {
	return fault(directory, "has a subdirectory %s, which is not read: move its files up, move it elsewhere, or name it as the source", inner)
}

// fault returns a mistake in data.source, as opposed to a failure of a disk or a server.
func fault(name, format string, args ...any) error {
	return &source.Error{File: name, Err: fmt.Errorf(format, args...)}
}

// Survey reads the source once. It checks every line, counts the results of the recipes, and computes the
// digests of the files. See datasets.Survey.
func (s *Source) Survey(ctx context.Context, limits source.Limits, recipes []datasets.Recipe) ([]datasets.Facts, error) {
	for _, r := range recipes {
		if err := s.check(r.Reading); err != nil {
			return nil, err
		}
	}
	return datasets.Survey(ctx, s.files(ctx), limits, recipes)
}

// Records reads the source once more. See source.Reading.
func (s *Source) Records(ctx context.Context, limits source.Limits, reading source.Reading) iter.Seq2[source.Record, error] {
	return reading.Records(ctx, s.files(ctx), limits)
}

// Columns returns the form of the source's first file, and the names of its columns. See source.Columns.
func (s *Source) Columns(ctx context.Context, named forms.Form) (forms.Form, []string, error) {
	return source.Columns(ctx, s.files(ctx)[0], named)
}

// Read calls read with the files, and computes their digests. read must read every file to its end.
func (s *Source) Read(ctx context.Context, limits source.Limits, read func(context.Context, []source.File, source.Limits) error) error {
	return read(ctx, s.files(ctx), limits)
}

// files returns the files of the source. Reading them computes their digests.
func (s *Source) files(ctx context.Context) []source.File {
	files := make([]source.File, len(s.Files))
	for i, f := range s.Files {
		files[i] = source.File{Name: f.Name, Split: f.Split, Open: func() (io.ReadCloser, error) {
			body, err := f.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &digester{ReadCloser: body, hash: sha256.New(), file: f}, nil
		}}
	}
	return files
}

// digester computes the digest of a file as it is read to its end.
type digester struct {
	io.ReadCloser
	hash hash.Hash
	file *File
}

func (d *digester) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.hash.Write(p[:n])
	if err == io.EOF {
		d.hash.Sum(d.file.Digest[:0])
	}
	return n, err
}

// Digests returns the digests of the files, in their order.
func (s *Source) Digests() []storage.Digest {
	return lists.Map(s.Files, func(f *File) storage.Digest { return f.Digest })
}

// Uploader stores sources. control.API implements it.
type Uploader interface {
	HasSource(ctx context.Context, digest storage.Digest) (bool, error)
	PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error)
}

// Upload uploads the surveyed files that the uploader lacks.
func (s *Source) Upload(ctx context.Context, to Uploader) error {
	for _, f := range s.Files {
		there, err := to.HasSource(ctx, f.Digest)
		if err == nil && !there {
			err = f.upload(ctx, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *File) upload(ctx context.Context, to Uploader) error {
	body, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	seeker, ok := body.(io.ReadSeeker)
	if !ok {
		spooled, err := tempfiles.Spool(body)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		defer spooled.Close()
		seeker = spooled
	}
	got, err := to.PutSource(ctx, seeker)
	if err != nil {
		return fmt.Errorf("uploading %s: %w", f.Name, err)
	}
	if got != f.Digest {
		return fmt.Errorf("uploading %s: the file has changed since it was checked; try again when no program writes to it", f.Name)
	}
	return nil
}
