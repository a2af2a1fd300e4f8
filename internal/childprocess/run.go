package childprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/tempfiles"
)

// Always is a Watch.Every that reports every change.
const Always = time.Nanosecond

// Watch receives the changes while a command runs, from one goroutine. An error ends the command.
type Watch struct {
	// Folder is polled. Changed is called when its files have stopped changing, at most once in Every, 0
	// for five seconds, and once more after the command has ended: if they have changed, or if the command
	// failed and there are any. It reports whether it has saved them; if not, it is called again.
	Folder  string
	Changed func(ctx context.Context, files []File) (taken bool, err error)
	Every   time.Duration
	// Lines is a growing file; More is called with the lines added since the start. A rewritten file is
	// read from its beginning. Text after the last line break counts as a line if the command succeeded
	// and More accepts it.
	Lines string
	More  func(lines []byte) error
	// Said is called with the last output lines of a command that succeeded; nil to ignore them.
	Said func(lines []string)
	// Looked is called about once a second, after a poll of both; nil to ignore.
	Looked func(ctx context.Context) error
}

const (
	// filesLook is the interval of polls of a command's files.
	filesLook = 250 * time.Millisecond
	// saveEvery is the default of Watch.Every, and tellEvery the minimum time between two calls of Looked.
	saveEvery = 5 * time.Second
	tellEvery = time.Second
)

// Run runs a command in the directory until it ends, and returns nil if its exit status is 0. When ctx ends,
// the command is asked to end, then killed. Processes that it leaves behind are always killed. The command
// may write to the directory and to those in its Write. An error of the command itself is a *FailedError.
func (w *Workspace) Run(ctx context.Context, c Command, watch Watch) error {
	if err := w.Folder("tmp"); err != nil {
		return err
	}
	lines, err := w.follow(watch.Lines)
	if err != nil {
		return err
	}
	c.Dir, c.Quiet = w.path, true
	c.Set = append([]string{"TMPDIR=" + filepath.Join(w.path, "tmp")}, c.Set...)
	c.Write = append([]string{w.path}, c.Write...)
	child, err := c.Start()
	if err != nil {
		return err
	}
	// It ends in time, even if a receiver of changes is slow.
	defer context.AfterFunc(ctx, func() { child.Terminate(context.Cause(ctx)) })()
	if most := goroutines.Seconds(c.Seconds); most > 0 {
		defer time.AfterFunc(most, func() { child.Kill(fmt.Errorf("it ran for more than %v, its limit, and was killed", most)) }).Stop()
	}
	r := &running{workspace: w, most: c.Files, watch: watch, child: child, lines: lines}
	// Changes in progress may still be saved when ctx has ended.
	watched := r.look(context.WithoutCancel(ctx))
	closed := child.Close()
	switch {
	case watched != nil:
		return &FailedError{watched, child.LastLines()}
	case ctx.Err() != nil:
		return &StoppedError{Cause: context.Cause(ctx), Killed: child.Deaf()}
	case closed != nil:
		return &FailedError{closed, child.LastLines()}
	case watch.Said != nil:
		watch.Said(child.LastLines())
	}
	return nil
}

// FailedError reports a command of a Workspace that failed or was ended.
type FailedError struct {
	// Err is the reason for ending the command, or wraps its *ExitError.
	Err error
	// Lines are its last output lines.
	Lines []string
}

func (e *FailedError) Error() string {
	if len(e.Lines) == 0 {
		return e.Err.Error() + "; it said nothing"
	}
	return e.Err.Error() + "; its last lines:\n  " + strings.Join(Explained(e.Lines), "\n  ")
}

// Explained returns the last lines of a command. If Python ended because it lacks a module, it adds a line with the next
// step.
func Explained(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	_, rest, found := strings.Cut(lines[len(lines)-1], "ModuleNotFoundError: No module named '")
	if !found {
		return lines
	}
	module, _, _ := strings.Cut(rest, "'")
	return append(slices.Clone(lines), fmt.Sprintf("the Python of the command lacks the module %s: install it there, or name another Python in the command, such as /usr/bin/python3", module))
}

func (e *FailedError) Unwrap() error { return e.Err }

// StoppedError reports a command that was asked to end because its context ended.
type StoppedError struct {
	Cause error
	// Killed reports whether it did not end in time.
	Killed bool
}

func (e *StoppedError) Error() string { return e.Cause.Error() }

func (e *StoppedError) Unwrap() error { return e.Cause }

type running struct {
	workspace *Workspace
	most      int64 // limit on the directory's size; 0 for none
	watch     Watch
	child     *Process
	lines     *follower

	seen, saved []File // files of the folder at the last poll, and when Changed last saved them
	savedAt     time.Time
	lookedAt    time.Time
}

// look polls until the command has ended, or an error has ended it.
func (r *running) look(ctx context.Context) error {
	again := time.NewTicker(filesLook)
	defer again.Stop()
	for {
		select {
		case <-r.child.Done():
			return r.last(ctx)
		case <-again.C:
		}
		err := r.limits()
		if err == nil {
			err = r.once(ctx)
		}
		if err != nil {
			r.child.Kill(err)
			<-r.child.Done()
			return err
		}
	}
}

func (r *running) limits() error {
	if r.most == 0 {
		return nil
	}
	if size := r.workspace.size(); size > r.most {
		return fmt.Errorf("its directory holds %d MiB, more than its limit of %d MiB, and it was killed", size>>20, r.most>>20)
	}
	return nil
}

// size returns the total size of the directory's readable files.
func (w *Workspace) size() (bytes int64) {
	_ = fs.WalkDir(w.root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // missing or unreadable files do not count
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// once reports the changes since the last call.
func (r *running) once(ctx context.Context) error {
	if err := r.lines.read(false, r.watch.More); err != nil {
		return err
	}
	files, err := r.workspace.List(r.watch.Folder)
	if err != nil {
		return err
	}
	resting := slices.Equal(files, r.seen)
	r.seen = files
	if resting && !slices.Equal(files, r.saved) && time.Since(r.savedAt) >= cmp.Or(r.watch.Every, saveEvery) {
		return r.save(ctx, files)
	}
	if r.watch.Looked == nil || time.Since(r.lookedAt) < tellEvery {
		return nil
	}
	r.lookedAt = time.Now()
	return r.watch.Looked(ctx)
}

func (r *running) save(ctx context.Context, files []File) error {
	r.savedAt = time.Now()
	taken, err := r.watch.Changed(ctx, files)
	if taken {
		r.saved = files
	}
	return err
}

// last polls once more after the end.
func (r *running) last(ctx context.Context) error {
	if err := r.lines.read(false, r.watch.More); err != nil {
		return err
	}
	if err := r.lines.read(true, r.watch.More); err != nil && r.child.Ended() == nil {
		return err // of a failed command it is half a line
	}
	files, err := r.workspace.List(r.watch.Folder)
	if err != nil || slices.Equal(files, r.saved) && (len(files) == 0 || r.child.Ended() == nil) {
		return err
	}
	return r.save(ctx, files)
}

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

// LeftBehind lists the names of files that a command has left next to its directory.
func (w *Workspace) LeftBehind() ([]string, error) {
	entries, err := os.ReadDir(w.around.Path)
	var names []string
	for _, e := range entries {
		if e.Name() != filepath.Base(w.path) && e.Name() != tempfiles.LockName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

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
		return nil, NotRegular(folder)
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
			return false, NotRegular(name)
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
			return &FileError{Name: folder, Fault: fmt.Sprintf("holds more than %d files or folders: put them together", MaxFiles)}
		}
		return err
	})
}

// MaxFiles is the limit on the files of a folder.
const MaxFiles = 1000
