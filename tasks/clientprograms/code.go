package clientprograms

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
)

// MaxCode is the largest total size of a directory of code, in bytes.
const MaxCode = 64 << 20

// made lists names below a directory of code that a command creates or receives. Their content,
// such as that of a manual execution, is not code.
var made = []string{"in", "out", "checkpoint", "tmp"}

// isCode reports whether a file or folder belongs to the code.
func isCode(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	last := path.Base(name)
	return name == "." || !slices.Contains(made, top) && !strings.HasPrefix(last, ".") && last != "__pycache__"
}

// PackCode packs the files of a directory into an archive. Equal files (name, content, executable
// or not) give equal archives. Hidden files and folders, Python's compiled files, files that a
// command makes, and those that omit reports are left out; a nil omit reports none.
func PackCode(directory fs.FS, omit func(name string) bool) ([]byte, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	files, size := 0, int64(0)
	err := fs.WalkDir(directory, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !isCode(name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir(), omit != nil && omit(name):
			return nil
		}
		if files++; files > childprocess.MaxFiles {
			return fmt.Errorf("it holds more than %d files: expected code alone", childprocess.MaxFiles)
		}
		n, err := pack(archive, directory, name)
		size += n
		return cmp.Or(childprocess.TooLarge("it", size, MaxCode), err)
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("it holds no files: expected code that a command can run")
	}
	if err == nil {
		err = archive.Close()
	}
	return packed.Bytes(), err
}

// pack adds a file, and returns its size.
func pack(archive *tar.Writer, directory fs.FS, name string) (int64, error) {
	info, err := fs.Stat(directory, name)
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, childprocess.NotRegular(name)
	}
	f, err := directory.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err = f.Stat()
	if err == nil {
		err = childprocess.TooLarge(name, info.Size(), MaxCode)
	}
	if err != nil {
		return 0, err
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return 0, err
	}
	return io.Copy(archive, f)
}

// Code opens an archive of PackCode; nil means no code.
type Code func(ctx context.Context) (io.ReadCloser, error)

// Packed returns the code in an archive.
func Packed(archive []byte) Code {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
}

// Unpack writes the files of the code, if any.
func (c Code) Unpack(ctx context.Context, w *childprocess.Workspace) error {
	if c == nil {
		return nil
	}
	archive, err := c(ctx)
	if err != nil {
		return err
	}
	defer archive.Close()
	err = unpackAll(w, archive)
	// Only the end of the stream shows whether the bytes match the digest. The files end before it.
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return fmt.Errorf("reading the code: %w", err)
	}
	return err
}

func unpackAll(w *childprocess.Workspace, archive io.Reader) error {
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the archive of the code is damaged: %w", err)
		}
		if !isCode(header.Name) {
			continue // packed by another program
		}
		if err := unpack(w, header, files); err != nil {
			return fmt.Errorf("unpacking the code: %w", err)
		}
	}
}

func unpack(w *childprocess.Workspace, header *tar.Header, content io.Reader) error {
	f, err := w.Create(header.Name, fs.FileMode(header.Mode).Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
