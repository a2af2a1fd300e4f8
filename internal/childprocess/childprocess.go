// Package childprocess runs an external command: a model or a trainer that communicates with this program
// over its standard input and output.
//
//	child, err := childprocess.Command{Args: []string{"python3", "scorer.py"}, Grace: 10 * time.Second}.Start()
//	...
//	fmt.Fprintln(child.Input, `{"id": 1, "method": "describe"}`)
//	line, err := bufio.NewReader(child.Output).ReadString('\n')
//	...
//	err = child.Close() // ends its input, then all of its processes
//
// The command leads its own process group. Its environment has only the listed variables of this program's,
// and those of its Terms. The last lines of its standard error are kept for messages. Its memory may be
// limited. A command that is asked to end has its grace until the last of its processes has ended.
//
// On Linux a keeper stands between this program and the command: this program run again under the name
// coalmine-keeper. Under that name any program that imports this package is only a keeper. It makes the
// command's environment, is the ancestor of all processes of the command, and ends them. The restrictions of
// the command depend on the system:
//
//	isolation_linux.go   namespaces: network, processes, files; files with secrets appear empty
//	cgroup_linux.go      control groups: memory and the number of processes
//	keep_linux.go        the keeper; without namespaces it adopts processes that lose their parent
//	keeper_linux.go      this program's side of a keeper
//
// A Workspace is a separate directory in which a command runs. While it runs, a Watch is called when the
// files of a folder have stopped changing, and with the new lines of another file. Names are slash-separated
// paths below the directory.
//
//	w, err := childprocess.NewWorkspace()
//	...
//	defer w.Remove()
//	err = w.Put("in/job.json", job)
//	err = w.Run(ctx, childprocess.Command{Args: childprocess.Shell("python3 train.py")}, childprocess.Watch{...})
//	files, err := w.List("out")
//
// On other Unix systems the process group is ended; if this program is killed, a shell that runs in
// parallel ends it. On other systems only the command itself is ended.
package childprocess

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Command describes the process to run. Args must not be empty.
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Dir is the working directory; "" for this program's directory.
	Dir string
	Terms
	// Set holds additional environment variables, such as "TMPDIR=/scratch".
	Set []string
	// Write are the directories that it may write to. If the platform permits, all others are read-only,
	// except shared memory, of which it has its own. A nil Write with the network marks a trusted command,
	// which may write wherever this program may; so may a command with "/".
	Write []string
	// Read are directories to make available in addition to the visible ones, such as some in shared
	// memory.
	Read []string
	// Grace is the time to end after its input ends, or after Terminate; 0 for DefaultGrace.
	Grace time.Duration
	// Quiet is set if no caller communicates with it: it has no input, and its standard output is kept like
	// its standard error. Process.Input and Process.Output are then nil.
	Quiet bool

	possible  *isolation // the isolation that tests assume; nil for the system's
	processes int        // limit on their number, in place of maxProcesses
}

// DefaultGrace is the time that the contracts give a command to end.
const DefaultGrace = 20 * time.Second

// NoGrace is a Command.Grace that kills the command at once.
const NoGrace = time.Nanosecond

const (
	// drain is the time to read standard error and output after a command has ended, in case processes it
	// left behind hold them open.
	drain = time.Second
	// settle is the time between the ends of the first and the last process of a command: helpers that a library
	// starts end when they notice the end of the first.
	settle = 2 * time.Second
	// look is the interval of polls for changes that have no event.
	look = 20 * time.Millisecond
	// memoryLook is the interval of polls of a command's memory.
	memoryLook = 250 * time.Millisecond
)

// Process is a running command. Input and Output are its standard input and output. Output must be read: a
// command with unread output does not end. Output ends with io.EOF at most a second after the command.
type Process struct {
	Input   io.WriteCloser
	Output  io.Reader
	command Command
	run     *exec.Cmd
	errors  tail
	// ours and theirs are the ends of the pipes for standard error and output. Unlike those of os/exec they
	// outlive the first process: its children may still write, and a write to a closed pipe would kill
	// them.
	ours, theirs []*os.File
	copied       sync.WaitGroup // standard error
	hold         *hold
	done         chan struct{}
	ended        error // result; set before done is closed, as are exit and left
	exit         *ExitError
	left         int // number of processes left behind

	deaf    atomic.Bool
	mu      sync.Mutex
	reason  error // reason for ending it
	closing sync.Once
	closed  error
}

func (c Command) Start() (*Process, error) {
	p := &Process{command: c, done: make(chan struct{}), run: exec.Command(c.Args[0], c.Args[1:]...)}
	err := p.connect()
	if err == nil {
		p.run.Dir = c.Dir
		p.run.Env, err = c.environment()
	}
	if err == nil {
		p.hold, err = newHold(&p.command, p.run)
	}
	if err != nil {
		closeAll(p.theirs)
		closeAll(p.ours)
		return nil, p.unstarted(err)
	}
	started := make(chan error)
	go p.wait(started)
	if err := <-started; err != nil {
		return nil, p.unstarted(err)
	}
	if c.Memory > 0 {
		go p.watchMemory()
	}
	return p, nil
}

func (p *Process) unstarted(err error) error {
	return fmt.Errorf("%q cannot be started: %w", strings.Join(p.command.Args, " "), err)
}

func (p *Process) connect() error {
	reader, errors, err := p.pipe()
	if err != nil {
		return err
	}
	p.copied.Go(func() { _, _ = io.Copy(&p.errors, reader) }) // the tail never fails
	p.run.Stdout, p.run.Stderr = errors, errors
	if p.command.Quiet {
		return nil
	}
	output, stdout, err := p.pipe()
	if err != nil {
		return err
	}
	p.Output, p.run.Stdout = untilClosed{output}, stdout
	p.Input, err = p.run.StdinPipe()
	return err
}

func (p *Process) pipe() (ours, theirs *os.File, err error) {
	if ours, theirs, err = os.Pipe(); err == nil {
		p.ours, p.theirs = append(p.ours, ours), append(p.theirs, theirs)
	}
	return ours, theirs, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// untilClosed is a file whose reads end without error when it is closed.
type untilClosed struct{ *os.File }

func (f untilClosed) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// wait starts the command and waits for its end on one thread: Linux kills a child when the thread that
// started it ends.
func (p *Process) wait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.run.Start()
	closeAll(p.theirs)
	if err == nil {
		err = p.hold.begun()
	}
	if err != nil {
		p.hold.close()
		closeAll(p.ours)
		started <- err
		return
	}
	started <- nil
	p.exit, p.left = p.hold.await()
	time.AfterFunc(drain, func() { closeAll(p.ours) })
	p.copied.Wait()
	p.ended = p.outcome()
	p.hold.close()
	close(p.done)
}

func (p *Process) outcome() error {
	if p.hold.outgrown() {
		p.setReason(&MemoryError{Most: p.command.Memory})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reason != nil:
		return p.reason
	case p.exit != nil && p.hold.killedForMemory():
		return fmt.Errorf("it ended with %w: the system ran out of memory and killed it or processes that it had started", p.exit)
	case p.exit != nil:
		return fmt.Errorf("it ended with %w", p.exit)
	}
	return nil
}

// ExitError reports an exit status other than 0, or a signal, of a command that this process did not end.
type ExitError struct {
	// Status is its exit status; -1 after a signal.
	Status int
	how    string
}

func (e *ExitError) Error() string { return e.how }

// BySignal reports whether an error is that of a command ended by a signal or, according to the status of its
// shell, of a child that a signal ended.
func BySignal(err error) bool {
	exit, ok := errors.AsType[*ExitError](err)
	return ok && (exit.Status < 0 || exit.Status > 128)
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended returns the result of a command after Done: nil for exit status 0, and a wrapped *ExitError for
// another status or a signal.
func (p *Process) Ended() error { return p.ended }

// Terminate asks all processes of the command to end, and kills them after the command's grace. Done is
// closed when no process remains. Ended then returns reason, whether or not they were killed.
func (p *Process) Terminate(reason error) {
	p.setReason(reason)
	p.hold.terminate()
	p.awaitEnd(func() {
		p.deaf.Store(true)
		p.hold.kill()
	})
}

// awaitEnd waits for the end of the command, and calls late if that takes longer than its grace.
func (p *Process) awaitEnd(late func()) {
	defer time.AfterFunc(p.grace(), late).Stop()
	<-p.done
}

func (p *Process) setReason(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = cmp.Or(p.reason, reason)
}

// Deaf reports whether the command did not end within its grace after Terminate.
func (p *Process) Deaf() bool { return p.deaf.Load() }

func (p *Process) grace() time.Duration { return cmp.Or(p.command.Grace, DefaultGrace) }

// LastLines returns the last lines written to standard error, the oldest first, with a hint on read-only
// files if a line complains of one. Files of its directory are named relative to it, so that two processes
// that fail alike have the same lines. They are complete after Done.
func (p *Process) LastLines() []string {
	lines := p.errors.lines()
	for i := range lines {
		if p.command.Dir != "" {
			lines[i] = strings.ReplaceAll(lines[i], p.command.Dir+string(filepath.Separator), "")
		}
	}
	if p.hold.readOnly() && slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, readOnlyError) }) {
		lines = append(lines, readOnlyHint)
	}
	return lines
}

// readOnlyError is the system's message for a read-only file, and readOnlyHint is the advice.
const (
	readOnlyError = "Read-only file system"
	readOnlyHint  = "(files outside of the command's directory and TMPDIR are read-only; the option --commands-may-write DIR of the process that runs it allows others)"
)

// Kill ends all processes at once. Ended then returns reason.
func (p *Process) Kill(reason error) {
	p.setReason(reason)
	p.hold.kill()
}

// Close ends the command's input, waits for its end, then ends its remaining processes. The error reports
// if it did not end in time, failed or left processes behind. Further calls return the same error.
func (p *Process) Close() error {
	p.closing.Do(func() { p.closed = p.close() })
	return p.closed
}

func (p *Process) close() error {
	if p.command.Quiet {
		<-p.done
	} else {
		_ = p.Input.Close() // it may have ended, which Ended reports
		p.awaitEnd(func() { p.Kill(&LateError{p.grace()}) })
	}
	if p.ended != nil || p.left == 0 {
		return p.ended
	}
	return &LeftBehindError{p.left}
}

// LateError reports a command that was killed because it did not end within its grace after its input.
type LateError struct{ Grace time.Duration }

func (e *LateError) Error() string {
	return fmt.Sprintf("it did not end within %v of the end of its input, and was killed", e.Grace)
}

// LeftBehindError reports that a command succeeded but left running processes.
type LeftBehindError struct{ Processes int }

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("it ended and left %d processes behind, which were killed", e.Processes)
}

// MemoryError reports a command that was killed because its processes exceeded their memory limit. Used is
// 0 if the system refused them the memory.
type MemoryError struct{ Used, Most int64 }

func (e *MemoryError) Error() string {
	if e.Used == 0 {
		return fmt.Sprintf("it was killed, since its processes wanted more than the %d MiB of memory that they may have", e.Most>>20)
	}
	return fmt.Sprintf("it was killed, since its processes had %d MiB of memory; expected at most %d", e.Used>>20, e.Most>>20)
}

// watchMemory kills the command if its processes exceed their memory limit.
func (p *Process) watchMemory() {
	again := time.NewTicker(memoryLook)
	defer again.Stop()
	for {
		used, look := p.hold.memory()
		if !look {
			return
		}
		if used > p.command.Memory {
			p.Kill(&MemoryError{used, p.command.Memory})
		}
		select {
		case <-p.done:
			return
		case <-again.C:
		}
	}
}
