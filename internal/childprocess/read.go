package childprocess

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// NotRegularError reports a link, a pipe or a device in place of a command's regular file.
type NotRegularError struct{ Name string }

func (e *NotRegularError) Error() string {
	return e.Name + " is no regular file: expected files alone, no links, pipes or devices"
}

// TooLargeError reports a file or folder of a command that exceeds its limit.
type TooLargeError struct {
	Name        string
	Size, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s holds %d bytes; expected at most %d", e.Name, e.Size, e.Limit)
}

// Read returns the content of a file of at most most bytes. The error wraps fs.ErrNotExist if
// there is none.
func (w *Workspace) Read(name string, most int64) ([]byte, error) { return read(w.root, name, most) }

// ReadFile returns the content of a command's file, of at most most bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	return read(root, filepath.Base(path), most)
}

// OpenFile opens a command's file of at most most bytes, and returns its size in bytes.
func OpenFile(path string, most int64) (*os.File, int64, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }() // it was only read
	f, info, err := openRegular(root, filepath.Base(path))
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > most {
		f.Close()
		return nil, 0, &TooLargeError{filepath.Base(path), info.Size(), most}
	}
	return f, info.Size(), nil
}

func read(root *os.Root, name string, most int64) ([]byte, error) {
	f, info, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > most {
		return nil, &TooLargeError{name, info.Size(), most}
	}
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // large files fit without a second copy
	_, err = data.ReadFrom(io.LimitReader(f, most+1))
	if int64(data.Len()) > most {
		return nil, &TooLargeError{name, int64(data.Len()), most}
	}
	return data.Bytes(), err
}

// openRegular opens a file that the command may have replaced: it does not block on a pipe, and
// follows no link.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	local := filepath.FromSlash(name)
	if info, err := root.Lstat(local); err != nil || !info.Mode().IsRegular() {
		return nil, nil, orNotRegular(err, name)
	}
	f, err := root.OpenFile(local, os.O_RDONLY|atOnce, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, orNotRegular(err, name)
	}
	return f, info, nil
}

func orNotRegular(err error, name string) error {
	if err != nil {
		return err
	}
	return &NotRegularError{name}
}

// Holder detects files of a folder that are rewritten in place. It keeps the files of the last
// look open: a file replaced by renaming is unchanged.
type Holder struct {
	workspace *Workspace
	folder    string
	held      map[string]heldFile
	found     string // a file rewritten in place
}

// Hold watches the files of a folder from the first Look until Close.
func (w *Workspace) Hold(folder string) *Holder { return &Holder{workspace: w, folder: folder} }

// Written returns a file that was rewritten in place, as a path below the folder; "" if none was.
func (h *Holder) Written() string { return h.found }

type heldFile struct {
	*os.File
	size    int64
	written time.Time
}

// Refresh compares the files with the last look, and opens the present ones.
func (h *Holder) Refresh() error {
	h.Close()
	files, err := h.workspace.List(h.folder)
	if err != nil {
		return err
	}
	h.held = map[string]heldFile{}
	for _, f := range files {
		file, info, err := openRegular(h.workspace.root, h.folder+"/"+f.Name)
		if err != nil {
			continue // it is being changed
		}
		h.held[f.Name] = heldFile{file, info.Size(), info.ModTime()}
	}
	return nil
}

// Close compares a last time, and closes the files.
func (h *Holder) Close() {
	for name, f := range h.held {
		if info, err := f.Stat(); err == nil && (info.Size() != f.size || !info.ModTime().Equal(f.written)) {
			h.found = name
		}
		f.Close()
	}
	h.held = nil
}
