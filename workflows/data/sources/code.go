package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"coalmine/storage"
	"coalmine/tasks/clientprograms"
)

// Packer packs the code that training.code names, within the permissions of a
// reader.
type Packer interface {
	// Pack returns a directory of code as one file with a known digest, without the files that
	// omit reports. digest is that of the experiment file, or "". The error is a
	// *datasets.SourceError if the name is at fault.
	Pack(ctx context.Context, name, digest string, omit func(file string) bool) (*Source, error)
}

// Pack implements Packer.
func (h Here) Pack(_ context.Context, name, _ string, omit func(string) bool) (*Source, error) {
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
		return nil, fault(name, "there is no such directory, looked for from the working directory and from %q", h.Folder)
	}
	return source, err
}

// pack packs the code of a directory. path is its path for stat, shown its name in messages.
func pack(code fs.FS, stat func(string) (fs.FileInfo, error), path, shown string, omit func(string) bool) (*Source, error) {
	info, err := stat(path)
	if err == nil && !info.IsDir() {
		return nil, fault(shown, "is no directory; expected one with the code that training.command runs")
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

// InMemory returns a source of one file with the content.
func InMemory(name string, content []byte) *Source {
	open := func(context.Context) (io.ReadCloser, error) { return memory{bytes.NewReader(content)}, nil }
	return &Source{Name: name, Files: []*File{{Name: name, Digest: storage.DigestOf(content), Open: open}}}
}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// Pack implements Packer: a server packs no code, and has only uploaded code.
func (s Served) Pack(ctx context.Context, name, digest string, _ func(string) bool) (*Source, error) {
	return s.uploaded(ctx, name, digest, "code")
}

// uploaded returns the uploaded source of a name; sort is its noun in errors.
func (s Served) uploaded(ctx context.Context, name, digest, sort string) (*Source, error) {
	d, err := storage.ParseDigest(digest)
	if err != nil {
		return nil, fault(name, "is %s that this server does not have: submit the experiment by coalmine submit, which uploads it", sort)
	}
	there, err := s.Archive.HasSource(ctx, d)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fault(name, "is %s with the digest %s, which has not been uploaded: submit the experiment by coalmine submit", sort, d.Short())
	}
	open := func(ctx context.Context) (io.ReadCloser, error) { return s.Archive.OpenSource(ctx, d) }
	return &Source{Name: name, Files: []*File{{Name: name, Digest: d, Open: open}}}, nil
}

// Pack packs code with a finder, if it can.
func Pack(ctx context.Context, finder Finder, name, digest string, omit func(file string) bool) (*Source, error) {
	packer, ok := finder.(Packer)
	if !ok {
		return nil, fmt.Errorf("%s: code cannot be read here: expected an experiment without training.code", name)
	}
	return packer.Pack(ctx, name, digest, omit)
}
