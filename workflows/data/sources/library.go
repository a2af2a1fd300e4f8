package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/datasets"
)

// StorePrefix begins the name of a source in the store: store:NAME.
const StorePrefix = "store:"

// Library has the named sources of a store.
type Library struct{ Archive *storage.Archive }

// Entry is the library's record of a source.
type Entry struct {
	Name string `json:"name"`
	// SHA256 is data.sha256 of the source, and Files are its files, in their order.
	SHA256 storage.Digest   `json:"sha256"`
	Files  []storage.Digest `json:"files"`
	// Splits are the splits of the files, if their names contain them; otherwise nil.
	Splits []string `json:"splits,omitempty"`
	// Reading and Limits are the settings with which it was read.
	Reading datasets.Reading `json:"reading,omitzero"`
	Limits  datasets.Limits  `json:"limits,omitzero"`
	// Corpus is the node that has read it: an experiment that reads it in the same way has
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

// Find returns the source of a name.
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
		f := &File{
			Name: fmt.Sprintf("%s, file %d", shown, i+1), Digest: d,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return l.Archive.OpenSource(ctx, d) },
		}
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

// absent returns the error for a missing name, with the existing names.
func (l Library) absent(ctx context.Context, shown string) error {
	names, err := l.Archive.Entries(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fault(shown, "there is no such source in %s, which has none with a name; make it by: coalmine data import SOURCE --name NAME", l.Archive)
	}
	return fault(shown, "there is no such source in %s; expected one of %s", l.Archive, strings.Join(names, ", "))
}

// ModelFinder finds the models that model.pretrained names, within the permissions of a reader.
type ModelFinder interface {
	// FindModel returns the folder of a model, or from a finder of uploaded models its checkpoint, with
	// the digest of the experiment file. The error is a *datasets.SourceError if the name is at fault.
	FindModel(ctx context.Context, name, digest string) (folder fs.FS, uploaded *Source, err error)
}

// FindModel implements ModelFinder.
func (h Here) FindModel(_ context.Context, name, _ string) (fs.FS, *Source, error) {
	folder, err := lookUp(h, name, func(path string) (fs.FS, error) {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = fault(name, "is no folder; expected one with config.json, tokenizer.json and model.safetensors")
		}
		return os.DirFS(path), err
	}, func(path, _ string) (fs.FS, error) {
		if _, err := fs.Stat(h.Shipped, path); err != nil {
			return nil, err
		}
		return fs.Sub(h.Shipped, path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fault(name, "there is no such folder, looked for from the working directory and from %q", h.Folder)
	}
	return folder, nil, err
}

// FindModel implements ModelFinder: a server reads no folders, and has only uploaded models.
func (s Served) FindModel(ctx context.Context, name, digest string) (fs.FS, *Source, error) {
	source, err := s.uploaded(ctx, name, digest, "a model")
	return nil, source, err
}
