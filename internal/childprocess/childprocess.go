package childprocess

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	// Dir is where it runs; "" for this program's directory.
	Dir string
	Terms
	// Set are further variables of the environment, such as "TMPDIR=/scratch".
	Set []string
	// Write are directories that it may write to: where the platform lets us, all others are
	// read-only, but for shared memory, of which it has its own. A nil Write with the network is for a
	// trusted command, which may write where this program may; so may a command of "/".
	Write []string
	// Read are directories that it is handed, beside those that it finds by itself: such as some in
	// shared memory.
	Read []string
	// Grace is how long it may take to end after its input has, or after Terminate; 0 for
	// DefaultGrace.
	Grace time.Duration
	// Quiet is set if no caller talks to it: it has no input, and its standard output is kept
	// like its standard error. Process.Input and Process.Output are then nil.
	Quiet bool

	possible  *isolation // the isolation that tests assume; nil for the system's
	processes int        // how many it may have, in place of maxProcesses
}

// DefaultGrace is how long a command may take to end, as the contracts say.
const DefaultGrace = 20 * time.Second

const (
	// drain is how long standard error and output are read after a command has ended, should
	// processes that it left hold them open.
	drain = time.Second
	// settle is how long the other processes of a command may take to end after its first: those
	// that a library starts beside it, and which notice its end.
	settle = 2 * time.Second
	// look is the pause between two polls of facts that have no event.
	look = 20 * time.Millisecond
	// memoryLook is the pause between two looks at the memory of a command.
	memoryLook = 250 * time.Millisecond
)

// Process is a command that runs. Input and Output are its standard input and output. Output
// must be read: a command whose output nobody takes does not end. It ends with io.EOF, a second after the
// command at the latest.
type Process struct {
	Input   io.WriteCloser
	Output  io.Reader
	command Command
	run     *exec.Cmd
	errors  tail
	// ours and theirs are the ends of the pipes that carry standard error and output. They outlive
	// the first process, unlike those of os/exec: its children may still write, and a write to a
	// closed pipe would kill them.
	ours, theirs []*os.File
	copied       sync.WaitGroup // standard error
	hold         *hold
	done         chan struct{}
	ended        error // how; set before done is closed, as are exit and left
	exit         *ExitError
	left         int // processes that it has left behind

	deaf    atomic.Bool
	mu      sync.Mutex
	reason  error // why it was ended
	closing sync.Once
	closed  error
}

// Start starts a command.
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

// connect makes the command's input and output.
func (p *Process) connect() error {
	said, errors, err := p.pipe()
	if err != nil {
		return err
	}
	p.copied.Go(func() { _, _ = io.Copy(&p.errors, said) }) // the tail takes all
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

// untilClosed is a file that ends when it is closed.
type untilClosed struct{ *os.File }

func (f untilClosed) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// wait starts the command and waits for its end, on one thread: Linux ends a child with the
// thread that has started it.
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

// outcome is how the command has ended.
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

// ExitError says how a command has ended by itself, if not with exit status 0.
type ExitError struct {
	// Status is its exit status; -1 if a signal has ended it.
	Status int
	how    string
}

func (e *ExitError) Error() string { return e.how }

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says how a command ended, after Done: nil for exit status 0, and a wrapped *ExitError for another by
// itself.
func (p *Process) Ended() error { return p.ended }

// Terminate asks all processes of the command to end, and kills them if they have not within the
// command's grace: Done is closed when none is left. Ended then gives the reason, whether or not
// they have been killed.
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

// Deaf reports whether the command did not end in time when it was asked to by Terminate.
func (p *Process) Deaf() bool { return p.deaf.Load() }

func (p *Process) grace() time.Duration { return cmp.Or(p.command.Grace, DefaultGrace) }

// LastLines are the last lines that it has written to standard error, the oldest first, and a word on
// files that were kept from it where one of them complains of that. They are whole after Done.
func (p *Process) LastLines() []string {
	lines := p.errors.lines()
	if p.hold.readOnly() && slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, readOnlyError) }) {
		lines = append(lines, readOnlyHint)
	}
	return lines
}

// readOnlyError is the system's message for a file that cannot be written, and
// readOnlyHint the advice.
const (
	readOnlyError = "Read-only file system"
	readOnlyHint  = "(files outside of the command's directory and TMPDIR are read-only; the option --commands-may-write DIR of the process that runs it allows others)"
)

// Kill ends all processes at once. Ended then returns reason.
func (p *Process) Kill(reason error) {
	p.setReason(reason)
	p.hold.kill()
}

// Close ends the command's input and waits for its end, then ends its remaining processes.
// The error says if it did not end in time, ended badly or left processes behind. It may be
// called again, and gives the same.
func (p *Process) Close() error {
	p.closing.Do(func() { p.closed = p.close() })
	return p.closed
}

func (p *Process) close() error {
	if p.command.Quiet {
		<-p.done
	} else {
		_ = p.Input.Close() // it may have ended, which Ended tells
		p.awaitEnd(func() {
			p.Kill(fmt.Errorf("it did not end within %v of the end of its input, and was killed", p.grace()))
		})
	}
	if p.ended != nil || p.left == 0 {
		return p.ended
	}
	return &LeftBehindError{p.left}
}

// LeftBehindError is that of a command that ended well before processes that it had started.
type LeftBehindError struct{ Processes int }

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("it ended and left %d processes behind, which were killed", e.Processes)
}

// MemoryError is why a command was killed whose processes had more memory than they may. Used is 0
// where the system has kept them from getting it.
type MemoryError struct{ Used, Most int64 }

func (e *MemoryError) Error() string {
	if e.Used == 0 {
		return fmt.Sprintf("it was killed, since its processes wanted more than the %d MiB of memory that they may have", e.Most>>20)
	}
	return fmt.Sprintf("it was killed, since its processes had %d MiB of memory; expected at most %d", e.Used>>20, e.Most>>20)
}

// watchMemory kills the command if its processes have more memory than they may.
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
