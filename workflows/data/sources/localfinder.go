package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"coalmine/internal/dataformats"
	"coalmine/tasks/datasets/source"
)

// LocalFinder finds sources that this process may read with the rights of its user: files, directories, and
// S3 with the credentials of the environment.
type LocalFinder struct {
	// Folder is the folder of the experiment file. Relative paths are looked up there after the working
	// directory. If it is "", they are not.
	Folder string
	// Library opens the named sources of a store. It is nil if there is no store.
	Library func(context.Context) (*Library, error)
	// Shipped holds the files of the program, among which relative paths are looked up last. It may be nil.
	Shipped fs.FS
	// Advice returns a text about how to get a missing file, or "". It may be nil.
	Advice func(name string) string
}

// Find implements Finder.
func (h LocalFinder) Find(ctx context.Context, name, _ string) (*Source, error) {
	if isS3(name) {
		return findS3(ctx, name)
	}
	if entry, ok := strings.CutPrefix(name, StorePrefix); ok {
		return h.findEntry(ctx, entry)
	}
	source, err := lookUp(h, name, findPath, func(shipped, found string) (*Source, error) { return findIn(h.Shipped, shipped, found) })
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return source, err
	case len(h.places(name)) == 1:
		return nil, fault(name, "no such file or directory%s", h.advice(name))
	}
	return nil, fault(name, "no such file or directory in the working directory or in %s%s", h.Folder, h.advice(name))
}

func (h LocalFinder) advice(name string) string {
	if h.Advice == nil {
		return ""
	}
	return h.Advice(name)
}

// places returns the paths that a name may stand for.
func (h LocalFinder) places(name string) []string {
	joined := filepath.Join(h.Folder, name)
	if h.Folder == "" || filepath.IsAbs(name) || joined == filepath.Clean(name) {
		return []string{name}
	}
	return []string{name, joined}
}

// lookUp tries the places of a name on this machine, and then among the shipped files. The error is
// fs.ErrNotExist if it finds none.
func lookUp[T any](h LocalFinder, name string, local func(path string) (T, error), shipped func(path, shown string) (T, error)) (T, error) {
	for _, place := range h.places(name) {
		if found, err := local(place); !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	for _, place := range h.places(name) {
		path := filepath.ToSlash(filepath.Clean(place))
		if h.Shipped == nil || !fs.ValidPath(path) {
			continue
		}
		if found, err := shipped(path, place); !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	var none T
	return none, fs.ErrNotExist
}

// findEntry finds a source that has been imported into the store.
func (h LocalFinder) findEntry(ctx context.Context, entry string) (*Source, error) {
	if h.Library == nil {
		return nil, fault(StorePrefix+entry, "names a source in a store, but no store is given: add --store, or --home for the store of a directory")
	}
	library, err := h.Library(ctx)
	if err != nil {
		return nil, err
	}
	return library.Find(ctx, entry)
}

// findPath finds a file or directory on this machine.
func findPath(name string) (*Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return findIn(os.DirFS(name), ".", name)
	}
	return findIn(os.DirFS(filepath.Dir(name)), filepath.Base(name), name)
}

// findIn finds a file or directory in a file system. shown is its name in messages.
func findIn(system fs.FS, name, shown string) (*Source, error) {
	info, err := fs.Stat(system, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		file, err := localFile(system, name, shown, info)
		if err != nil {
			return nil, err
		}
		return &Source{Name: shown, Files: []*File{file}}, nil
	}
	return findDirectory(system, name, shown)
}

// findDirectory finds the data files of a directory, or its text files.
func findDirectory(system fs.FS, name, shown string) (*Source, error) {
	files, inner, err := listIn(system, name, shown)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 && len(inner) == 0 {
		return newDirectory(shown, files)
	}
	texts, hint, err := findTexts(system, name, shown)
	if err != nil || texts != nil {
		return texts, err
	}
	src, err := newSource(shown, files, inner, func(split string) (string, []*File, []string, error) {
		below := filepath.Join(shown, split)
		found, deeper, err := listIn(system, path.Join(name, split), below)
		return below, found, deeper, err
	})
	if fault, ok := errors.AsType[*source.Error](err); ok {
		return nil, &source.Error{File: fault.File, Err: fmt.Errorf("%w%s", fault.Err, hint)}
	}
	if err == nil {
		src.hint = hint
	}
	return src, err
}

// listIn returns the data files of a directory, and the names of its subdirectories.
func listIn(system fs.FS, name, shown string) (files []*File, inner []string, err error) {
	entries, err := fs.ReadDir(system, name) // sorted by name
	if err != nil {
		return nil, nil, shownAs(shown, err)
	}
	for _, e := range entries {
		f, directory, err := directoryFile(system, path.Join(name, e.Name()), shown)
		if err != nil {
			return nil, nil, err
		}
		if directory {
			inner = append(inner, e.Name())
		}
		if f != nil {
			files = append(files, f)
		}
	}
	return files, inner, nil
}

// directoryFile returns a file of a directory, or nil if it does not belong to the source. inner reports
// whether it is a directory.
func directoryFile(system fs.FS, name, directory string) (f *File, inner bool, err error) {
	base := path.Base(name)
	if isHidden(base) {
		return nil, false, nil
	}
	info, err := fs.Stat(system, name)
	switch {
	case err != nil && isData(base):
		return nil, false, shownAs(filepath.Join(directory, base), err)
	case err == nil && info.IsDir():
		return nil, true, nil
	case !isData(base):
		return nil, false, nil
	}
	f, err = localFile(system, name, filepath.Join(directory, base), info)
	return f, false, err
}

func localFile(system fs.FS, name, shown string, info fs.FileInfo) (*File, error) {
	if !info.Mode().IsRegular() {
		return nil, fault(shown, "is neither a regular file nor a directory; expected JSON lines, plain, .gz or .zst")
	}
	if err := dataformats.CheckWholeTFF(system, name); err != nil {
		return nil, fault(shown, "%w", err)
	}
	open := func(context.Context) (io.ReadCloser, error) {
		body, err := system.Open(name)
		return body, shownAs(shown, err)
	}
	return &File{Name: shown, Size: info.Size(), Open: open}, nil
}

// shownAs replaces the path in an error, which is only the end, by the whole path.
func shownAs(path string, err error) error {
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: fault.Op, Path: path, Err: fault.Err}
	}
	return err
}

func isS3(name string) bool { return strings.HasPrefix(name, "s3://") }
