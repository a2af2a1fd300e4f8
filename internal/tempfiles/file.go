package tempfiles

import (
	"errors"
	"io/fs"
	"os"
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
