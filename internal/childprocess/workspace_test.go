//go:build unix

package childprocess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
)

func newWorkspace(t *testing.T) *Workspace {
	t.Helper()
	w := must.Get(NewWorkspace())(t)
	t.Cleanup(w.Remove)
	return w
}

// told is a watch that notes its calls.
type told struct {
	workspace *Workspace
	files     []string // "name=content", all at every change
	lines     string
}

func (x *told) watch() Watch {
	return Watch{
		Folder: "checkpoint", Every: Always, Lines: "out/lines",
		Changed: func(_ context.Context, files []File) (bool, error) {
			for _, f := range files {
				data, err := x.workspace.Read("checkpoint/"+f.Name, 100)
				if err != nil {
					return false, err
				}
				x.files = append(x.files, f.Name+"="+strings.TrimSpace(string(data)))
			}
			return true, nil
		},
		More: func(lines []byte) error {
			x.lines += string(lines)
			return nil
		},
	}
}

func TestWorkspaceRejectsOutsidePaths(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	must.Do(t, os.Symlink("/etc/passwd", w.Path()+"/out"))
	if _, err := w.Read("out", 1<<20); err == nil {
		t.Error("a link to a file elsewhere is read")
	}
	_, err := w.List(".")
	must.Say(t, err, "out is not a regular file")
	if err := w.Put("../beside", nil); err == nil {
		t.Error("a file beside the directory is written")
	}
}

func TestWatchReportsFilesAndLines(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	x := &told{workspace: w}
	// It waits until its files have been looked at, as the file "seen" says.
	script := `mkdir checkpoint out; echo 1 > tmp/a; mv tmp/a checkpoint/a; printf 'one\ntw' > out/lines
while [ ! -e seen ]; do sleep 0.01; done
echo 2 > tmp/a; mv tmp/a checkpoint/a; echo o >> out/lines`
	watch := x.watch()
	changed := watch.Changed
	watch.Changed = func(ctx context.Context, files []File) (bool, error) {
		taken, err := changed(ctx, files)
		return taken, errors.Join(err, w.Put("seen", nil))
	}
	must.Do(t, w.Run(t.Context(), Command{Args: Shell(script)}, watch))
	if !slices.Equal(x.files, []string{"a=1", "a=2"}) || x.lines != "one\ntwo\n" {
		t.Errorf("it was told of %q and %q", x.files, x.lines)
	}
}

// Lines are read once each, whether a command appends to a file or writes it anew, and the last one
// without its line break.
func TestWatchReportsEachLineOnce(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"echo c >> out/lines":                    "c\n",
		"echo c > out/lines":                     "c\n",
		"printf 'cc\\ndd\\nee\\n' > out/lines":   "cc\ndd\nee\n",
		"rm out/lines; echo a > out/lines":       "a\n",
		"printf 'c\\nlast' >> out/lines":         "c\nlast",
		"printf 'c\\nhalf' >> out/lines; exit 1": "c\n",
	} {
		w := newWorkspace(t)
		must.Do(t, w.Put("out/lines", []byte("a\nb\n")))
		x := &told{workspace: w}
		watch := x.watch()
		more := watch.More
		watch.More = func(lines []byte) error {
			if string(lines) == "half" {
				return errors.New("half a line")
			}
			return more(lines)
		}
		if err := w.Run(t.Context(), Command{Args: Shell(line)}, watch); (err == nil) == strings.Contains(line, "exit 1") || x.lines != want {
			t.Errorf("%s: %v, and it was told of %q, want %q", line, err, x.lines, want)
		}
	}
}

// A command is asked to end at once, also while its files are being stored.
func TestStopIsSentWhileFilesAreStored(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	ctx, stop := context.WithCancelCause(t.Context())
	watch := (&told{workspace: w}).watch()
	watch.Changed = func(context.Context, []File) (bool, error) {
		stop(errors.New("the run was paused"))
		for again := time.NewTicker(5 * time.Millisecond); ; <-again.C {
			if _, err := w.Read("asked", 10); err == nil {
				return true, nil
			}
		}
	}
	err := w.Run(ctx, Command{Args: Shell(`trap 'echo > asked; exit 75' TERM; mkdir checkpoint; echo > checkpoint/a; while :; do sleep 0.01; done`)}, watch)
	if e, ok := errors.AsType[*StoppedError](err); !ok || e.Killed {
		t.Errorf("got %v, want that it has ended in time", err)
	}
}

// Files that could not be stored are offered again.
func TestUnstoredFilesAreOfferedAgain(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	watch := (&told{workspace: w}).watch()
	offered := 0
	watch.Changed = func(context.Context, []File) (bool, error) {
		if offered++; offered < 3 {
			return false, nil
		}
		return true, w.Put("stored", nil)
	}
	if err := w.Run(t.Context(), Command{Args: Shell(`mkdir checkpoint; echo > checkpoint/a; while [ ! -e stored ]; do sleep 0.01; done`)}, watch); err != nil || offered != 3 {
		t.Errorf("%v, offered %d times, want 3", err, offered)
	}
}

func TestRunReportsFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, want string
		terms      Terms
		status     int
	}{
		{"echo no module named numpy >&2; exit 3", "it ended with exit status 3; its last lines:\n  no module named numpy", Terms{}, 3},
		{"kill -9 $$", "it ended with signal: killed; it said nothing", Terms{}, -1},
		{"sleep 1000", "it ran for more than 300ms, its limit, and was killed", Terms{Seconds: 0.3}, -1},
		{"head -c 3000000 /dev/zero > big; sleep 1000", "its directory holds 2 MiB, more than its limit of 1 MiB", Terms{Files: 1 << 20}, -1},
		{"mkdir checkpoint; ln -s / checkpoint/root", "checkpoint/root is not a regular file", Terms{}, -1},
		{"mkdir out; mkfifo out/lines; sleep 1000", "out/lines is not a regular file", Terms{}, -1},
		{"mkdir out; head -c 1100000 /dev/zero > out/lines; sleep 1000", "out/lines has a line of more than 1048576 bytes", Terms{}, -1},
		{"a=$(head -c 64000000 /dev/zero | tr '\\0' x); sleep 1000", "MiB of memory; expected at most 24", Terms{Memory: 24 << 20}, -1},
		{"mkdir out; ln -s /dev/zero out/lines; sleep 1000", "out/lines is not a regular file", Terms{}, -1},
	} {
		w := newWorkspace(t)
		x := &told{workspace: w}
		err := w.Run(t.Context(), Command{Args: Shell(c.line), Terms: c.terms}, x.watch())
		_, ok := errors.AsType[*FailedError](err)
		status := -1
		if exit, itself := errors.AsType[*ExitError](err); itself {
			status = exit.Status
		}
		if !ok || status != c.status || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}

// A command that is asked to end writes its checkpoint, which is told of.
func TestStoppedCommandKeepsCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	x := &told{workspace: w}
	ctx, stop := context.WithCancelCause(t.Context())
	reason := fmt.Errorf("the run was paused")
	watch := x.watch()
	watch.More = func([]byte) error {
		stop(reason)
		return nil
	}
	err := w.Run(ctx, Command{Args: Shell(`mkdir checkpoint out; trap 'echo last > checkpoint/a; exit 75' TERM; echo go > out/lines; while :; do sleep 0.01; done`)}, watch)
	// On a busy machine the file may be stored before the command ends, and again then.
	if !errors.Is(err, reason) || !slices.Equal(slices.Compact(x.files), []string{"a=last"}) {
		t.Errorf("%v, %q", err, x.files)
	}
	if err := w.Run(ctx, Command{Args: Shell(`trap '' TERM; echo go >> out/lines; while :; do sleep 0.01; done`), Grace: 100 * time.Millisecond}, watch); !errors.Is(err, reason) {
		t.Errorf("one that does not listen: %v", err)
	}
}

func TestReadRejectsLargeFiles(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	must.Do(t, w.Put("a", make([]byte, 10)))
	if _, err := w.Read("a", 9); err == nil || err.Error() != "a holds 10 bytes; expected at most 9" {
		t.Errorf("got %v", err)
	}
	if _, err := w.Read("b", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
