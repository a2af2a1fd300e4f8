package childprocess

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coalmine/internal/goroutines"
)

// Always is a Watch.Every that lets no look out.
const Always = time.Nanosecond

// Watch receives the changes while a command runs, from one goroutine. An error ends the
// command.
type Watch struct {
	// Folder is looked at; Changed is called when its files have changed and come to rest, at
	// most once in Every, 0 for five seconds, and once more after the command has ended: if they
	// have changed, or if there are any and it has not ended well. It reports whether it has
	// taken them in: it is called again where it has not.
	Folder  string
	Changed func(ctx context.Context, files []File) (taken bool, err error)
	Every   time.Duration
	// Lines is a file that grows; More is called with whole lines that it has got since the start.
	// A file that was written anew is read from its beginning. Text after the last line break is a
	// line if the command has ended well, and if More takes it.
	Lines string
	More  func(lines []byte) error
	// Said is called with the last lines that a command has printed which has ended well; nil for nothing.
	Said func(lines []string)
	// Looked is called about once in a second, after a look at both; nil for nothing.
	Looked func(ctx context.Context) error
}

const (
	// filesLook is the pause between two looks at the files of a command.
	filesLook = 250 * time.Millisecond
	// saveEvery is Watch.Every by default, tellEvery the least time between two calls of Looked.
	saveEvery = 5 * time.Second
	tellEvery = time.Second
)

// Run runs a command in the directory until it ends, and returns nil if its exit status is 0. The
// command is asked to end when ctx does, and killed if it does not. Processes that it leaves behind are
// killed in any case. It may write to the directory and to those of its Write. An error of the command
// itself is a *FailedError.
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
	// It ends in time, even while a receiver of changes is slow.
	defer context.AfterFunc(ctx, func() { child.Terminate(context.Cause(ctx)) })()
	if most := goroutines.Seconds(c.Seconds); most > 0 {
		defer time.AfterFunc(most, func() { child.Kill(fmt.Errorf("it ran for more than %v, its limit, and was killed", most)) }).Stop()
	}
	r := &running{workspace: w, most: c.Files, watch: watch, child: child, lines: lines}
	// Changes under way may still be saved when ctx has ended.
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

// FailedError is the end of a command of a Workspace that has not ended well.
type FailedError struct {
	// Err wraps an *ExitError if the command has ended by itself, and else is why it was ended.
	Err error
	// Lines are the last that it has printed.
	Lines []string
}

func (e *FailedError) Error() string {
	if len(e.Lines) == 0 {
		return e.Err.Error() + "; it said nothing"
	}
	return e.Err.Error() + "; its last lines:\n  " + strings.Join(e.Lines, "\n  ")
}

func (e *FailedError) Unwrap() error { return e.Err }

// StoppedError is that of a command that was asked to end, because its context has.
type StoppedError struct {
	Cause error
	// Killed says that it did not end in time.
	Killed bool
}

func (e *StoppedError) Error() string { return e.Cause.Error() }

func (e *StoppedError) Unwrap() error { return e.Cause }

// running is a command that runs.
type running struct {
	workspace *Workspace
	most      int64 // bytes that the directory may hold; 0 for no bound
	watch     Watch
	child     *Process
	lines     *follower

	seen, saved []File // of the folder, at the last look and when Changed took them in
	savedAt     time.Time
	lookedAt    time.Time
}

// look watches until the command has ended, or an error has ended it.
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

// limits reports an exceeded limit.
func (r *running) limits() error {
	if r.most == 0 {
		return nil
	}
	if size := r.workspace.size(); size > r.most {
		return fmt.Errorf("its directory holds %d MiB, more than its limit of %d MiB, and it was killed", size>>20, r.most>>20)
	}
	return nil
}

// size is the total size of the directory's readable files.
func (w *Workspace) size() (bytes int64) {
	_ = fs.WalkDir(w.root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // files that are gone or unreadable count nothing
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

// last looks once more, after the end.
func (r *running) last(ctx context.Context) error {
	if err := r.lines.read(false, r.watch.More); err != nil {
		return err
	}
	if err := r.lines.read(true, r.watch.More); err != nil && r.child.Ended() == nil {
		return err // of one that has not ended well it is half a line
	}
	files, err := r.workspace.List(r.watch.Folder)
	if err != nil || slices.Equal(files, r.saved) && (len(files) == 0 || r.child.Ended() == nil) {
		return err
	}
	return r.save(ctx, files)
}
