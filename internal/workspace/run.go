package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/sleep"
)

// Command says what runs in a workspace, and how far it may go.
type Command struct {
	// Line is a command line for the system's shell.
	Line string
	// Keep names variables of the environment that are passed on although they sound secret.
	Keep []string
	Limits
	// Network leaves it the network.
	Network bool
	// Grace is how long it may take to end once it is asked to; 0 for DefaultGrace.
	Grace time.Duration
}

// Limits bound a command. Zero fields bound nothing.
type Limits struct {
	// Seconds is how long it may run.
	Seconds float64
	// Memory is how many bytes its processes may have resident together.
	Memory int64
	// Files is how many bytes its directory may hold.
	Files int64
}

// DefaultGrace is how long a command may take to end once it is asked to.
const DefaultGrace = 20 * time.Second

// Watch is told what changes while a command runs, by one goroutine. An error ends the command.
type Watch struct {
	// Folder is looked at; Changed is called when its files have changed and come to rest, at
	// most once in Every, 0 for five seconds, and once more after the command has ended.
	Folder  string
	Changed func(ctx context.Context, files []File) error
	Every   time.Duration
	// Lines is a file that grows, read from the byte From on; More is called with whole lines
	// that it has got.
	Lines string
	From  int64
	More  func(lines []byte) error
	// Looked is called about once in a second, after a look at both; nil for nothing.
	Looked func(ctx context.Context) error
}

const (
	// look is the pause between two looks at the files of a command.
	look = 250 * time.Millisecond
	// saveEvery is Watch.Every by default, tellEvery the least time between two calls of Looked.
	saveEvery = 5 * time.Second
	tellEvery = time.Second
)

// Run runs a command until it ends, and returns nil if its exit status is 0. It is asked to end
// when ctx does, and killed if it does not. What it leaves behind is killed in any case. An error
// of the command itself is an *ExitError.
func (w *Workspace) Run(ctx context.Context, c Command, watch Watch) error {
	if err := w.Folder("tmp"); err != nil {
		return err
	}
	child, err := childprocess.Command{
		Args: childprocess.Shell(c.Line), Dir: w.path, Keep: c.Keep, Memory: c.Memory, Quiet: true, Offline: !c.Network, Grace: cmp.Or(c.Grace, DefaultGrace),
		Set: []string{"TMPDIR=" + filepath.Join(w.path, "tmp")},
	}.Start()
	if err != nil {
		return err
	}
	r := &running{workspace: w, command: c, watch: watch, child: child, started: time.Now()}
	// What is under way may still be saved when ctx has ended.
	watched := r.look(ctx, context.WithoutCancel(ctx))
	closed := child.Close()
	if watched != nil {
		return r.explain(watched)
	}
	return r.outcome(ctx, closed)
}

// ExitError says how a command has ended.
type ExitError struct {
	// Status is that it has ended with; -1 if a signal has ended it.
	Status int
	// Reason is why it was ended, nil if it ended by itself.
	Reason error
	// Lines are the last that it has said.
	Lines []string
	// How is it in words.
	How string
}

func (e *ExitError) Error() string {
	if len(e.Lines) == 0 {
		return e.How + "; it said nothing"
	}
	text := e.How + "; its last lines:"
	for _, line := range e.Lines {
		text += "\n  " + line
	}
	return text
}

func (e *ExitError) Unwrap() error { return e.Reason }

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
	command   Command
	watch     Watch
	child     *childprocess.Process
	started   time.Time

	seen, saved []File // of the folder, at the last look and when Changed was told
	savedAt     time.Time
	lookedAt    time.Time
	read        int64 // of the lines, in bytes after watch.From
}

// look watches until the command has ended, or an error has ended it.
func (r *running) look(ctx, saving context.Context) error {
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		var err error
		select {
		case <-r.child.Done():
			return r.last(saving)
		case <-ctx.Done():
			r.child.Terminate(context.Cause(ctx))
			return r.last(saving)
		case <-again.C:
			if err = r.limits(); err == nil {
				err = r.once(saving)
			}
		}
		if err != nil {
			r.child.Kill(err)
			<-r.child.Done()
			return err
		}
	}
}

// limits reports what is more than it may be.
func (r *running) limits() error {
	if most := sleep.Seconds(r.command.Seconds); most > 0 && time.Since(r.started) > most {
		return fmt.Errorf("it ran for more than %v, its limit, and was killed", most)
	}
	if most := r.command.Files; most > 0 {
		if size := r.workspace.size(); size > most {
			return fmt.Errorf("its directory holds %d MiB, more than its limit of %d MiB, and it was killed", size>>20, most>>20)
		}
	}
	return nil
}

// size is what all files of the directory hold, as far as they can be looked at.
func (w *Workspace) size() (bytes int64) {
	_ = fs.WalkDir(w.root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // what is gone or closed to us counts nothing
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// once looks at what has changed.
func (r *running) once(ctx context.Context) error {
	if err := r.lines(); err != nil {
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
	r.saved, r.savedAt = files, time.Now()
	return r.watch.Changed(ctx, files)
}

// last looks once more, after the end.
func (r *running) last(ctx context.Context) error {
	if err := r.lines(); err != nil {
		return err
	}
	files, err := r.workspace.List(r.watch.Folder)
	if err != nil || slices.Equal(files, r.saved) {
		return err
	}
	return r.save(ctx, files)
}

// maxLines is the most that is read of lines at a time.
const maxLines = 1 << 20

// lines hands over whole lines that are new.
func (r *running) lines() error {
	f, _, err := openRegular(r.workspace.root, r.watch.Lines)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		part, err := io.ReadAll(io.NewSectionReader(f, r.watch.From+r.read, maxLines))
		if err != nil {
			return err
		}
		whole := bytes.LastIndexByte(part, '\n') + 1
		switch {
		case whole == 0 && len(part) == maxLines:
			return fmt.Errorf("%s has a line of more than %d bytes", r.watch.Lines, maxLines)
		case whole == 0:
			return nil
		}
		r.read += int64(whole)
		if err := r.watch.More(part[:whole]); err != nil {
			return err
		}
	}
}

// outcome says how the command has ended.
func (r *running) outcome(ctx context.Context, closed error) error {
	if ctx.Err() != nil {
		return &StoppedError{Cause: context.Cause(ctx), Killed: r.child.Deaf()}
	}
	if closed == nil {
		return nil
	}
	e := &ExitError{Status: r.child.ExitStatus(), Lines: r.child.LastLines(), How: closed.Error()}
	if e.Status == 0 {
		e.Reason = closed // it has left processes behind
	}
	return e
}

// explain adds what the command has said last.
func (r *running) explain(err error) error {
	return &ExitError{Status: -1, Reason: err, Lines: r.child.LastLines(), How: err.Error()}
}
