// This file imports sources into a store under a name: their files, and the corpus that datasets/import
// reads from them, as the node of experiments. An experiment names such a source store:NAME. If it reads
// the source with the settings of the import, the corpus is available, and no worker reads the files.
//
// The files are stored first, then the blobs of the corpus and its commit, and finally the name. A killed
// import leaves no name; the next import reuses its objects, or the next collection deletes them.

package sources

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/source"
)

// Importer imports sources into a store.
type Importer struct {
	Archive *storage.Archive
	// Version and Kernels identify the importing program, as they identify workers.
	Version, Kernels string
	// Progress, if not nil, is called with the number of examples read so far.
	Progress func(tasks.Progress)
}

// Add imports a surveyed source under the name of an entry, and completes the entry with the facts of the source. If
// another source has the name, the error wraps storage.ErrExists. Adding the same source again changes nothing.
func (m *Importer) Add(ctx context.Context, source *Source, e *Entry) error {
	spec, err := tasks.NewSpec(datasets.Import, datasets.Recipe{Reading: e.Reading}.Import(e.Files, e.Limits))
	if err != nil {
		return err
	}
	e.Corpus = spec.Key
	if err := m.free(ctx, e); err != nil {
		return err
	}
	if err := source.Upload(ctx, uploader{m.Archive}); err != nil {
		return err
	}
	commit, err := m.standing(ctx, spec)
	if commit == nil && err == nil {
		commit, err = m.run(ctx, spec)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(commit.Metrics, &e.Holds); err != nil {
		return fmt.Errorf("metrics of %s: %w", spec.Key.Short(), err)
	}
	if err := m.Archive.CreateEntry(ctx, e.Name, e); err != nil {
		return err
	}
	// A collection that began before the name existed may have deleted a file that existed before.
	return source.Upload(ctx, uploader{m.Archive})
}

// free returns an error if another source has the name. Add calls it before it stores anything.
func (m *Importer) free(ctx context.Context, e *Entry) error {
	var there Entry
	err := m.Archive.Entry(ctx, e.Name, &there)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	case there.Corpus != e.Corpus:
		return fmt.Errorf("the name %s belongs to another source, or to the same one with other settings (sha256 %s): choose another name, or remove it: coalmine data remove %s: %w", e.Name, there.SHA256.Short(), e.Name, storage.ErrExists)
	}
	return nil
}

// standing returns the commit of an available node, or nil.
func (m *Importer) standing(ctx context.Context, spec tasks.Spec) (*storage.Commit, error) {
	c, err := m.Archive.Committed(ctx, spec.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if there, err := m.Archive.Available(ctx, c); err != nil || !there {
		return nil, err
	}
	return c, nil
}

// run executes the import and commits it, as a worker does.
func (m *Importer) run(ctx context.Context, spec tasks.Spec) (*storage.Commit, error) {
	started := time.Now()
	out := &sink{archive: m.Archive, key: spec.Key}
	runner := tasks.NewRunner()
	runner.Source, runner.Report = taskSource{runner, m.Archive}, m.Progress
	task := runner.Task(spec, out)
	if err := datasets.Import.Run(ctx, task); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	ours := &storage.Commit{
		Key: spec.Key, Kind: spec.Kind, KindVersion: spec.Version, Attempt: "0.import." + strings.ToLower(rand.Text()[:8]), Blobs: out.blobs, Metrics: task.Metrics(),
		Provenance: storage.Provenance{
			Worker: "data import", Host: host, Version: m.Version, Arch: runtime.GOARCH, Kernels: m.Kernels,
			Started: started.UTC(), Seconds: time.Since(started).Seconds(),
		},
	}
	stands, won, err := m.Archive.Commit(ctx, ours)
	if err == nil && !won && ours.Provenance.Comparable(stands.Provenance) && stands.Differs(ours) != "" {
		err = fmt.Errorf("the import is not deterministic: %s; report this", stands.Differs(ours))
	}
	return stands, err
}

// taskSource reads imported files from the store.
type taskSource struct {
	*tasks.Runner
	archive *storage.Archive
}

// Imported implements tasks.Source.
func (s taskSource) Imported(ctx context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return s.archive.OpenSource(ctx, digest)
}

// sink stores the outputs of the import.
type sink struct {
	archive *storage.Archive
	key     storage.Key
	mu      sync.Mutex
	blobs   []storage.Blob
}

// Put implements tasks.Sink.
func (s *sink) Put(ctx context.Context, name string, data []byte, durability storage.Durability) error {
	blob, err := s.archive.PutBlob(ctx, s.key, name, data, durability)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs = append(s.blobs, blob)
	return nil
}

// uploader stores files in an archive.
type uploader struct{ *storage.Archive }

// PutSource implements sources.Uploader.
func (u uploader) PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error) {
	digest, _, err := u.Archive.PutSource(ctx, body)
	return digest, err
}

// Packer packs the code that training.code names, within the permissions of a reader.
type Packer interface {
	// Pack returns a directory of code as one file with a known digest, without the files for which omit returns true.
	// digest is that of the experiment file, or "". The error is a *source.Error if the name is at fault.
	Pack(ctx context.Context, name, digest string, omit func(file string) bool) (*Source, error)
}

// Pack implements Packer.
func (h LocalFinder) Pack(_ context.Context, name, _ string, omit func(string) bool) (*Source, error) {
	source, err := lookUp(h, name,
		func(directory string) (*Source, error) {
			return pack(os.DirFS(directory), os.Stat, directory, directory, omit)
		},
		func(path, shown string) (*Source, error) {
			code, err := fs.Sub(h.Shipped, path)
			if err != nil {
				return nil, err
			}
			stat := func(name string) (fs.FileInfo, error) { return fs.Stat(h.Shipped, name) }
			return pack(code, stat, path, shown, omit)
		})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault(name, "no such directory in the working directory or in %q", h.Folder)
	}
	return source, err
}

// pack packs the code of a directory. path is the directory's path for stat; shown is its name in messages.
func pack(code fs.FS, stat func(string) (fs.FileInfo, error), path, shown string, omit func(string) bool) (*Source, error) {
	info, err := stat(path)
	if err == nil && !info.IsDir() {
		return nil, fault(shown, "is not a directory; expected a directory with the code that training.command runs")
	}
	if err != nil {
		return nil, err
	}
	archive, err := clientprograms.PackCode(code, omit)
	if err != nil {
		return nil, fault(shown, "cannot be packed: %w", err)
	}
	return InMemory(shown, archive), nil
}

// InMemory returns a source of one file with the given content.
func InMemory(name string, content []byte) *Source {
	open := func(context.Context) (io.ReadCloser, error) { return memory{bytes.NewReader(content)}, nil }
	return &Source{Name: name, Files: []*File{{Name: name, Digest: storage.DigestOf(content), Open: open}}}
}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// Pack implements Packer. A server packs no code; it has only uploaded code.
func (s Served) Pack(ctx context.Context, name, digest string, _ func(string) bool) (*Source, error) {
	return s.uploaded(ctx, name, digest, "code")
}

// uploaded returns the uploaded source with a digest. sort is its noun in errors.
func (s Served) uploaded(ctx context.Context, name, digest, sort string) (*Source, error) {
	d, err := storage.ParseDigest(digest)
	if err != nil {
		return nil, fault(name, "is %s that has not been uploaded to this server: coalmine submit uploads it", sort)
	}
	there, err := s.Archive.HasSource(ctx, d)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fault(name, "is %s with the digest %s, which has not been uploaded to this server: coalmine submit uploads it", sort, d.Short())
	}
	return &Source{Name: name, Files: []*File{storedFile(s.Archive, name, d)}}, nil
}

// storedFile returns a file in a store.
func storedFile(archive *storage.Archive, name string, d storage.Digest) *File {
	open := func(ctx context.Context) (io.ReadCloser, error) { return archive.OpenSource(ctx, d) }
	return &File{Name: name, Digest: d, Open: open}
}

// Pack packs code with a finder. It returns an error if the finder is not a Packer.
func Pack(ctx context.Context, finder Finder, name, digest string, omit func(file string) bool) (*Source, error) {
	packer, ok := finder.(Packer)
	if !ok {
		return nil, fmt.Errorf("%s: this server does not read code; expected an experiment without training.code", name)
	}
	return packer.Pack(ctx, name, digest, omit)
}

// StorePrefix begins the name of a source in the store, as in store:NAME.
const StorePrefix = "store:"

// Library finds the named sources of a store.
type Library struct{ Archive *storage.Archive }

// Entry is the library's record of a source.
type Entry struct {
	Name string `json:"name"`
	// SHA256 is data.sha256 of the source. Files are the digests of its files, in their order.
	SHA256 storage.Digest   `json:"sha256"`
	Files  []storage.Digest `json:"files"`
	// Splits are the splits of the files if their names contain them, or nil.
	Splits []string `json:"splits,omitempty"`
	// Reading and Limits are the settings with which the source was read.
	Reading source.Reading `json:"reading,omitzero"`
	Limits  source.Limits  `json:"limits,omitzero"`
	// Corpus is the node that has read the source. An experiment that reads it with the same settings has
	// that node, and does not read the files again.
	Corpus storage.Key            `json:"corpus"`
	Holds  datasets.ImportMetrics `json:"holds"`
}

// Entries returns all entries, ordered by name.
func (l Library) Entries(ctx context.Context) ([]Entry, error) {
	names, err := l.Archive.Entries(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		var e Entry
		err := l.Archive.Entry(ctx, name, &e)
		if errors.Is(err, storage.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (l Library) Find(ctx context.Context, name string) (*Source, error) {
	shown := StorePrefix + name
	var e Entry
	err := l.Archive.Entry(ctx, name, &e)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, l.absent(ctx, shown)
	case errors.Is(err, storage.ErrName):
		return nil, fault(shown, "%w", err)
	case err != nil:
		return nil, err
	}
	source := &Source{Name: shown}
	for i, d := range e.Files {
		f := storedFile(l.Archive, fmt.Sprintf("%s, file %d", shown, i+1), d)
		if i < len(e.Splits) {
			f.Split = e.Splits[i]
		}
		source.Files = append(source.Files, f)
	}
	if len(source.Files) == 1 {
		source.Files[0].Name = shown
	}
	return source, nil
}

// absent returns the error for a missing name. It lists the existing names.
func (l Library) absent(ctx context.Context, shown string) error {
	names, err := l.Archive.Entries(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fault(shown, "no such source in %s, which has no named sources; to import one: coalmine data import SOURCE --name NAME", l.Archive)
	}
	return fault(shown, "no such source in %s; expected one of %s", l.Archive, strings.Join(names, ", "))
}

// ModelFinder finds the models that model.pretrained names, within the permissions of a reader.
type ModelFinder interface {
	// FindModel returns the folder of a model or, from a finder of uploaded models, its checkpoint. digest
	// is that of the experiment file. The error is a *source.Error if the name is at fault.
	FindModel(ctx context.Context, name, digest string) (folder fs.FS, uploaded *Source, err error)
}

// FindModel implements ModelFinder.
func (h LocalFinder) FindModel(_ context.Context, name, _ string) (fs.FS, *Source, error) {
	folder, err := lookUp(h, name, func(path string) (fs.FS, error) {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = fault(name, "is not a folder; expected one with config.json, tokenizer.json and model.safetensors")
		}
		return os.DirFS(path), err
	}, func(path, _ string) (fs.FS, error) {
		if _, err := fs.Stat(h.Shipped, path); err != nil {
			return nil, err
		}
		return fs.Sub(h.Shipped, path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fault(name, "no such folder in the working directory or in %q", h.Folder)
	}
	return folder, nil, err
}

// FindModel implements ModelFinder. A server reads no folders; it has only uploaded models.
func (s Served) FindModel(ctx context.Context, name, digest string) (fs.FS, *Source, error) {
	source, err := s.uploaded(ctx, name, digest, "a model")
	return nil, source, err
}
