package sources

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/tasks/datasets/forms"
)

// textFiles are the text files of a directory: of folders, one for each user, or one for each.
// They are one file of a source, a tar archive that is made while it is read.
type textFiles struct {
	system fs.FS
	name   string   // of the directory
	paths  []string // from the directory, with slashes, in byte order
}

// findTexts makes a source of the text files of a directory, at any depth; nil where it has none,
// or has data files, too.
func findTexts(system fs.FS, name, shown string) (*Source, error) {
	inner, err := fs.Sub(system, name)
	if err != nil {
		return nil, err
	}
	t := textFiles{system: inner, name: shown}
	err = fs.WalkDir(inner, ".", t.visit)
	if err == errDataFile || err == nil && len(t.paths) == 0 { //nolint:errorlint // visit returns it as it is
		return nil, nil
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, shownAs(shown, err)
	}
	slices.Sort(t.paths)
	return &Source{Name: shown, Files: []*File{{Name: shown, Open: t.open}}}, nil
}

// errDataFile ends the walk through a directory that is no one of texts.
var errDataFile = errors.New("a data file")

// visit is a fs.WalkDirFunc.
func (t *textFiles) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case name != "." && isHidden(path.Base(name)) && entry.IsDir():
		return fs.SkipDir
	case !utf8.ValidString(name) && (entry.IsDir() || forms.IsText(name)):
		return fault(t.name, "has %q, a name that is not UTF-8; rename it", name)
	case entry.IsDir():
	case isData(path.Base(name)):
		return errDataFile
	case forms.IsText(name):
		t.paths = append(t.paths, name)
	}
	return nil
}

// check reports files of which it is not clear whose they are.
func (t *textFiles) check() error {
	isLoose := func(name string) bool { return !strings.Contains(name, "/") }
	loose := slices.IndexFunc(t.paths, isLoose)
	if nested := slices.ContainsFunc(t.paths, func(name string) bool { return !isLoose(name) }); nested && loose >= 0 {
		return fault(t.name, "has the text file %s beside folders with others; expected a folder for each user, or a file for each, not both", t.paths[loose])
	}
	return nil
}

// open begins an archive, which depends on the paths and contents of the files alone.
func (t *textFiles) open(ctx context.Context) (io.ReadCloser, error) {
	from, to := io.Pipe()
	go func() { to.CloseWithError(t.archive(ctx, to)) }() // ends when from is read or closed
	return from, nil
}

func (t *textFiles) archive(ctx context.Context, to io.Writer) error {
	archive := tar.NewWriter(to)
	for _, name := range t.paths {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.add(archive, name); err != nil {
			return shownAs(filepath.Join(t.name, filepath.FromSlash(name)), err)
		}
	}
	return archive.Close()
}

// add writes one file.
func (t *textFiles) add(archive *tar.Writer, name string) error {
	file, err := t.system.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fault(t.name, "%s is no regular file; expected a text file", name)
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644}); err != nil {
		return err
	}
	n, err := io.Copy(archive, io.LimitReader(file, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s, %s: %d bytes of %d could be read; try again when nobody writes to it", t.name, name, n, info.Size())
	}
	return err
}
