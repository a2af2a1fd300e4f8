package sources

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

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
