package childprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"coalmine/internal/tempfiles"
)

// Workspace is a directory for one command.
type Workspace struct {
	around *tempfiles.Directory // holds only the directory
	path   string
	root   *os.Root // confines reads and writes, even through links
}

// NewWorkspace makes an empty directory in the system's temporary directory, where it also removes
// directories of killed processes.
func NewWorkspace() (*Workspace, error) { return NewWorkspaceIn(os.TempDir()) }

// NewWorkspaceIn makes an empty directory below another one.
func NewWorkspaceIn(parent string) (*Workspace, error) {
	around, err := tempfiles.MakeDirectory(parent, "work-")
	if err != nil {
		return nil, fmt.Errorf("a directory for a command: %w", err)
	}
	w := &Workspace{around: around, path: filepath.Join(around.Path, "job")}
	if err = os.Mkdir(w.path, 0o777); err == nil {
		w.root, err = os.OpenRoot(w.path)
	}
	if err != nil {
		around.Remove()
		return nil, fmt.Errorf("a directory for a command: %w", err)
	}
	return w, nil
}

// Beside lists the names of files that a command has left next to its directory.
func (w *Workspace) Beside() ([]string, error) {
	entries, err := os.ReadDir(w.around.Path)
	var names []string
	for _, e := range entries {
		if e.Name() != filepath.Base(w.path) && e.Name() != tempfiles.LockName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Path returns the path of the directory.
func (w *Workspace) Path() string { return w.path }

// Remove deletes the directory and its content.
func (w *Workspace) Remove() {
	_ = w.root.Close() // only its name is needed from here
	w.around.Remove()
}

// Create makes a file and its parent folders.
func (w *Workspace) Create(name string, mode fs.FileMode) (*os.File, error) {
	if err := w.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, err
	}
	return w.root.OpenFile(filepath.FromSlash(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
}

// Put makes a file with the given content.
func (w *Workspace) Put(name string, data []byte) error {
	f, err := w.Create(name, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Folder makes a folder and its parents.
func (w *Workspace) Folder(name string) error { return w.root.MkdirAll(name, 0o777) }

// RemoveFolder removes a folder and its content.
func (w *Workspace) RemoveFolder(name string) error { return w.root.RemoveAll(name) }

// File is an entry of a listing.
type File struct {
	// Name is its path below the listed folder.
	Name string
	Size int64
	// changed is the time of the last write, in nanoseconds.
	changed int64
}

// List returns the regular files below a folder, by name. Entries other than files and folders, or more
// than MaxFiles files, are an error. A missing folder has no files.
func (w *Workspace) List(folder string) ([]File, error) {
	var files []File
	if info, err := w.root.Lstat(folder); err == nil && !info.IsDir() {
		return nil, &NotRegularError{folder}
	}
	err := w.walk(folder, func(name string, entry fs.DirEntry) (bool, error) {
		if entry.IsDir() {
			return false, nil
		}
		info, err := entry.Info()
		switch {
		case err != nil:
			return false, err
		case !info.Mode().IsRegular():
			return false, &NotRegularError{name}
		}
		files = append(files, File{strings.TrimPrefix(name, folder+"/"), info.Size(), info.ModTime().UnixNano()})
		return true, nil
	})
	return files, err
}

// Folders returns the folders below a folder, as paths in the directory. More than MaxFiles are an error.
func (w *Workspace) Folders(folder string) (folders []string, err error) {
	err = w.walk(folder, func(name string, entry fs.DirEntry) (bool, error) {
		if !entry.IsDir() || name == folder {
			return false, nil
		}
		folders = append(folders, name)
		return true, nil
	})
	return folders, err
}

// walk visits the entries below a folder that still exist. visit reports whether an entry counts towards
// MaxFiles.
func (w *Workspace) walk(folder string, visit func(name string, entry fs.DirEntry) (counts bool, err error)) error {
	n := 0
	return fs.WalkDir(w.root.FS(), folder, func(name string, entry fs.DirEntry, err error) error {
		counts := false
		if err == nil {
			counts, err = visit(name, entry)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if counts {
			n++
		}
		if n > MaxFiles {
			return &TooManyFilesError{folder}
		}
		return err
	})
}

// TooManyFilesError reports a folder with more than MaxFiles files.
type TooManyFilesError struct{ Folder string }

func (e *TooManyFilesError) Error() string {
	return fmt.Sprintf("%s holds more than %d files or folders: put them together", e.Folder, MaxFiles)
}

// MaxFiles is the limit on the files of a folder.
const MaxFiles = 1000
