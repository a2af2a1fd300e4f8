package childprocess

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// FileError reports a file or a folder that a command may not have.
type FileError struct {
	Name  string
	Fault string // a clause
	// Size is the size in bytes of a file that is larger than its Limit; both are 0 for other faults.
	Size, Limit int64
}

func (e *FileError) Error() string { return e.Name + " " + e.Fault }

// NotRegular returns the error of a link, a pipe or a device in place of a regular file.
func NotRegular(name string) error {
	return &FileError{Name: name, Fault: "is not a regular file: expected only files, no links, pipes or devices"}
}

// TooLarge returns the error of a file that exceeds its limit, in bytes; nil for one that does not.
func TooLarge(name string, size, limit int64) error {
	if size <= limit {
		return nil
	}
	return &FileError{name, fmt.Sprintf("holds %d bytes; expected at most %d", size, limit), size, limit}
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
	return open(root, filepath.Base(path), most)
}

// open opens a regular file of at most most bytes, and returns its size in bytes.
func open(root *os.Root, name string, most int64) (*os.File, int64, error) {
	f, info, err := openRegular(root, name)
	if err != nil {
		return nil, 0, err
	}
	if err := TooLarge(name, info.Size(), most); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func read(root *os.Root, name string, most int64) ([]byte, error) {
	f, size, err := open(root, name, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // large files fit without a second copy
	_, err = data.ReadFrom(io.LimitReader(f, most+1))
	return data.Bytes(), cmp.Or(TooLarge(name, int64(data.Len()), most), err)
}

// openRegular opens a file that the command may have replaced: it does not block on a pipe, and
// follows no link.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	local := filepath.FromSlash(name)
	if info, err := root.Lstat(local); err != nil || !info.Mode().IsRegular() {
		return nil, nil, cmp.Or(err, NotRegular(name))
	}
	f, err := root.OpenFile(local, os.O_RDONLY|atOnce, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, cmp.Or(err, NotRegular(name))
	}
	return f, info, nil
}

// Holder detects files of a folder that are rewritten in place. It keeps the files of the last Refresh open:
// a file replaced by renaming is unchanged.
type Holder struct {
	workspace *Workspace
	folder    string
	held      map[string]heldFile
	found     string // a file rewritten in place
}

// Hold watches the files of a folder from the first Refresh until Close.
func (w *Workspace) Hold(folder string) *Holder { return &Holder{workspace: w, folder: folder} }

// Written returns a file that was rewritten in place, as a path below the folder; "" if none was.
func (h *Holder) Written() string { return h.found }

type heldFile struct {
	*os.File
	size    int64
	written time.Time
}

// Refresh compares the files with the last Refresh, and opens the present ones.
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
