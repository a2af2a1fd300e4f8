package tempfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a temporary file without a name, if the system allows that: it vanishes with its process,
// even a killed one. On other systems Close removes it.
type File struct {
	*os.File
	named bool
}

// OpenFile creates an empty file in a directory, "" for the temporary directory. The file cannot be
// opened by its Name.
func OpenFile(parent, prefix string) (*File, error) {
	f, err := os.CreateTemp(parent, prefix+"*")
	if err != nil {
		return nil, err
	}
	return &File{f, os.Remove(f.Name()) != nil}, nil
}

// Close closes the file and removes it.
func (f *File) Close() error {
	err := f.File.Close()
	if f.named && !errors.Is(err, fs.ErrClosed) {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Spooled is a copy of a stream. It vanishes when it is closed or its process is killed.
type Spooled struct {
	*os.File
	// Size is its length in bytes.
	Size   int64
	remove func() error // also closes it
}

// Spool copies a stream to a temporary file (TMPDIR), and seeks to its beginning. Errors of the stream are
// returned unchanged. Programs cannot open the file by its name: see SpoolNamed.
func Spool(body io.Reader) (*Spooled, error) {
	file, err := OpenFile("", "coalmine-source-")
	if err != nil {
		return nil, fmt.Errorf("temporary copy: %w", err)
	}
	return fill(&Spooled{File: file.File, remove: file.Close}, body)
}

// SpoolNamed is like Spool, for a library that opens the file by its name. The next process removes the
// file of a killed process when it starts.
func SpoolNamed(body io.Reader) (*Spooled, error) {
	d, err := MakeDirectory("", "source-")
	if err != nil {
		return nil, fmt.Errorf("temporary copy: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(d.Path, "copy"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		d.Remove()
		return nil, fmt.Errorf("temporary copy: %w", err)
	}
	remove := func() error {
		defer d.Remove()
		return file.Close()
	}
	return fill(&Spooled{File: file, remove: remove}, body)
}

func fill(f *Spooled, body io.Reader) (*Spooled, error) {
	var err error
	if f.Size, err = io.Copy(f.File, body); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the file and removes it.
func (f *Spooled) Close() error { return f.remove() }
