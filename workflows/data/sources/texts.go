package sources

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/goroutines"
	"coalmine/tasks/datasets/forms"
)

// textFiles are the text files of a directory, with a folder or a file for each user. They are one file of
// a source: a tar archive that is made as it is read.
type textFiles struct {
	system fs.FS
	name   string   // of the directory
	paths  []string // from the directory, with slashes, in byte order
	data   string   // the first data file, or empty
	link   string   // the first link to a directory, or empty
	// misnamed is the first name that is not UTF-8, or empty.
	misnamed string
}

// findTexts makes a source of the text files of a directory, at any depth. It returns nil if there are no
// text files, or data files too; hint then names the data file, for the end of an error.
func findTexts(system fs.FS, name, shown string) (source *Source, hint string, err error) {
	inner, err := fs.Sub(system, name)
	if err != nil {
		return nil, "", err
	}
	t := textFiles{system: inner, name: shown}
	err = fs.WalkDir(inner, ".", t.visit)
	if err == nil {
		err = t.check()
	}
	switch {
	case err != nil:
		return nil, "", shownAs(shown, err)
	case len(t.paths) == 0:
		return nil, "", nil
	case t.data != "":
		return nil, fmt.Sprintf("; or, to read its text files, move the data file elsewhere: %s", t.data), nil
	}
	slices.Sort(t.paths)
	return &Source{Name: shown, Files: []*File{{Name: shown, Open: t.open}}}, "", nil
}

func (t *textFiles) visit(name string, entry fs.DirEntry, err error) error {
	hidden := name != "." && isHidden(path.Base(name))
	switch {
	case err != nil:
		return err
	case hidden && entry.IsDir():
		return fs.SkipDir
	case hidden:
	case !utf8.ValidString(name) && (entry.IsDir() || forms.IsText(name)):
		if t.misnamed = cmp.Or(t.misnamed, name); entry.IsDir() {
			return fs.SkipDir // a file with such a name cannot be read
		}
	case entry.IsDir():
	case isData(path.Base(name)):
		t.data = cmp.Or(t.data, name)
	case forms.IsText(name):
		t.paths = append(t.paths, name)
	case entry.Type()&fs.ModeSymlink != 0 && t.mayBeFolder(name):
		t.link = cmp.Or(t.link, name)
	}
	return nil
}

// mayBeFolder reports whether a link leads to a directory, or leads nowhere but has a name without an extension.
func (t *textFiles) mayBeFolder(link string) bool {
	info, err := fs.Stat(t.system, link)
	if err != nil {
		return path.Ext(link) == ""
	}
	return info.IsDir()
}

// check returns an error for files of a directory of texts that would be ignored, or have no clear user.
func (t *textFiles) check() error {
	switch {
	case t.data != "":
		return nil
	case t.misnamed != "":
		return fault(t.name, "has the file name %q, which is not UTF-8; rename the file", t.misnamed)
	case len(t.paths) == 0:
		return nil
	case t.link != "":
		return fault(t.name, "has the link %s to a directory, which is not followed; replace it by the directory, or remove it", t.link)
	}
	isLoose := func(name string) bool { return !strings.Contains(name, "/") }
	loose := slices.IndexFunc(t.paths, isLoose)
	if nested := slices.ContainsFunc(t.paths, func(name string) bool { return !isLoose(name) }); nested && loose >= 0 {
		return fault(t.name, "has the text file %s beside folders; expected a folder for each user, or a file for each, not both", t.paths[loose])
	}
	return nil
}

// open begins an archive, which depends only on the paths and contents of the files.
func (t *textFiles) open(ctx context.Context) (io.ReadCloser, error) {
	from, to := io.Pipe()
	go func() { // ends when from is read or closed
		to.CloseWithError(goroutines.Recover(func() error { return t.archive(ctx, to) }))
	}()
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

func (t *textFiles) add(archive *tar.Writer, name string) error {
	info, err := fs.Stat(t.system, name) // before Open, which blocks for a pipe
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fault(t.name, "%s is not a regular file; expected a text file", name)
	}
	file, err := t.system.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644}); err != nil {
		return err
	}
	n, err := io.Copy(archive, io.LimitReader(file, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s, %s: only %d of %d bytes could be read; try again when no program writes to it", t.name, name, n, info.Size())
	}
	return err
}
