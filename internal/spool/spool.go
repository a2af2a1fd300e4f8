// Package spool keeps a stream in a temporary file, for readers that need to go back and
// forth in it.
package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// File is a copy of a stream. Close removes it.
type File struct {
	*os.File
	// Size is its length in bytes.
	Size int64
}

// Copy reads a stream to its end into a temporary file (TMPDIR), and goes to the
// beginning of that. The errors of the stream are returned as they are.
func Copy(body io.Reader) (*File, error) {
	file, err := os.CreateTemp("", "coalmine-source-*")
	if err != nil {
		return nil, fmt.Errorf("temporary copy: %w", err)
	}
	f := &File{File: file}
	f.Size, err = io.Copy(file, body)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the file and removes it.
func (f *File) Close() error {
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}
