package childprocess

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/sleep"
)

// Command says what to run. Args must not be empty.
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Dir is where it runs; "" for this program's directory.
	Dir string
	// Keep names variables of the environment that are passed on although they sound secret.
	Keep []string
	// Set are further variables of the environment, such as "TMPDIR=/scratch".
	Set []string
	// Memory is how many bytes its processes may have resident together; 0 for no bound.
	Memory int64
	// Offline takes the network from it, where the platform lets us: in Linux by a network
	// namespace of its own. Process.Offline says whether it has none.
	Offline bool
	// Grace is how long it may take to end after its input has, or after Terminate; 0 for
	// DefaultGrace.
	Grace time.Duration
	// Quiet says that nobody talks to it: it has no input, and what it says on standard output
	// is kept as that on standard error is. Process.Input and Process.Output are then nil.
	Quiet bool
}

// DefaultGrace is how long a command may take to end.
const DefaultGrace = 10 * time.Second

const (
	// drain is how long standard error and output are read after a command has ended, should
	// processes that it left hold them open.
	drain = time.Second
	// settle is how long the other processes of a group may take to end after its leader: those
	// that a library starts beside it, and which notice its end.
	settle = 2 * time.Second
	// look is the pause between two looks at a group.
	look = 20 * time.Millisecond
	// memoryLook is the pause between two looks at the memory of a group.
	memoryLook = 250 * time.Millisecond
)

// Process is a command that runs. Input and Output are its standard input and output. Output
// must be read: a command whose output nobody takes does not end. It ends with io.EOF soon
// after the command has.
type Process struct {
	Input  io.WriteCloser
	Output io.Reader
	// Offline says that it has no network.
	Offline bool

	command Command
	run     *exec.Cmd
	output  *io.PipeWriter
	errors  tail
	pipes   pipes
	mark    string // stands in the environment of all its processes
	guard   *guard
	done    chan struct{}
	ended   error // how; set before done is closed

	asked   atomic.Bool // to end
	deaf    atomic.Bool
	mu      sync.Mutex
	reason  error // why it was ended
	closing sync.Once
	closed  error
}

// Start starts a command.
func (c Command) Start() (*Process, error) {
	p := &Process{command: c, mark: markVariable + "=" + rand.Text(), done: make(chan struct{}), run: exec.Command(c.Args[0], c.Args[1:]...)}
	if err := p.connect(); err != nil {
		p.pipes.started()
		p.pipes.close()
		return nil, err
	}
	p.run.Dir, p.run.Env = c.Dir, append(append(withoutSecrets(c.Keep), c.Set...), p.mark)
	leadGroup(p.run)
	if c.Offline && canIsolate() {
		isolate(p.run)
		p.Offline = true
	}
	started := make(chan error)
	go p.wait(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%q cannot be started: %w", strings.Join(c.Args, " "), err)
	}
	p.guard = startGuard(p.run.Process.Pid, p.mark)
	if c.Memory > 0 {
		go p.watchMemory()
	}
	return p, nil
}

// connect makes the command's input and output.
func (p *Process) connect() error {
	errors, err := p.pipes.to(&p.errors)
	if err != nil {
		return err
	}
	p.run.Stderr = errors
	if p.command.Quiet {
		p.run.Stdout = errors
		return nil
	}
	p.Output, p.output = io.Pipe()
	output, err := p.pipes.to(p.output)
	if err != nil {
		return err
	}
	p.run.Stdout = output
	p.Input, err = p.run.StdinPipe()
	return err
}

// wait starts the command and waits for its end, on one thread: Linux ends a child with the
// thread that has started it.
func (p *Process) wait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.run.Start()
	p.pipes.started()
	if err != nil {
		p.pipes.close()
		started <- err
		return
	}
	started <- nil
	err = p.run.Wait()
	p.awaitOthers()
	p.pipes.drain()
	p.mu.Lock()
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case p.reason != nil:
		p.ended = p.reason
	case ok:
		p.ended = fmt.Errorf("it ended with %w", exit)
	case err != nil:
		p.ended = err
	}
	p.mu.Unlock()
	if p.output != nil {
		_ = p.output.Close()
	}
	close(p.done)
}

// awaitOthers waits for the other processes of a command that has been asked to end: a shell ends
// at once, and what it has started still saves its work. Those that are killed it does not await.
func (p *Process) awaitOthers() {
	for p.asked.Load() && !p.deaf.Load() && anyOf(p.run, p.mark) {
		time.Sleep(look) // nobody tells when the child of a child ends
	}
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says how a command ended, after Done: nil for exit status 0.
func (p *Process) Ended() error { return p.ended }

// ExitStatus is that of a command that has ended by itself, after Done; -1 of one that a signal
// has ended.
func (p *Process) ExitStatus() int { return p.run.ProcessState.ExitCode() }

// Terminate asks all processes of the command to end, and kills them if they have not within the
// command's grace: Done is closed when none is left. Ended then gives the reason, whether or not
// they have been killed.
func (p *Process) Terminate(reason error) {
	p.setReason(reason)
	p.asked.Store(true)
	p.signalAll(terminateGroup, terminateProcess)
	late := time.AfterFunc(p.grace(), func() {
		p.deaf.Store(true)
		p.signalAll(killGroup, killProcess)
	})
	defer late.Stop()
	<-p.done
}

// signalAll has a signal sent to the group, and to what has left it.
func (p *Process) signalAll(group func(*exec.Cmd), one func(pid int)) {
	others := outside(p.run, marked(p.mark))
	group(p.run)
	for _, pid := range others {
		one(pid)
	}
}

func (p *Process) setReason(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = cmp.Or(p.reason, reason)
}

// Reason is why it was ended by Terminate or Kill, or for a limit; nil of one that has ended by
// itself.
func (p *Process) Reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// Deaf reports whether the command did not end in time when it was asked to by Terminate.
func (p *Process) Deaf() bool { return p.deaf.Load() }

func (p *Process) grace() time.Duration { return cmp.Or(p.command.Grace, DefaultGrace) }

// LastLines are the last lines that it has written to standard error, the oldest first. They
// are whole after Done.
func (p *Process) LastLines() []string { return p.errors.lines() }

// Kill ends all processes of the group at once. reason is what Ended then says.
func (p *Process) Kill(reason error) {
	p.setReason(reason)
	killGroup(p.run)
}

// Close ends the command's input and waits for its end, then ends what it has left. The error
// says if it did not end in time, ended badly or left processes behind. It may be called
// again, and gives the same.
func (p *Process) Close() error {
	p.closing.Do(func() { p.closed = p.close() })
	return p.closed
}

func (p *Process) close() error {
	if !p.command.Quiet {
		p.endInput()
	}
	<-p.done
	defer p.guard.end()
	left := p.left()
	killGroup(p.run)
	for _, pid := range left {
		killProcess(pid)
	}
	if p.ended != nil || len(left) == 0 {
		return p.ended
	}
	return &LeftBehindError{len(left)}
}

// LeftBehindError is that of a command that ended well before processes that it had started.
type LeftBehindError struct{ Processes int }

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("it ended and left %d processes behind, which were killed", e.Processes)
}

// endInput ends the command's input, and the command if it does not end soon after.
func (p *Process) endInput() {
	_ = p.Input.Close() // it may have ended, which Ended tells
	late := time.AfterFunc(p.grace(), func() {
		p.Kill(fmt.Errorf("it did not end within %v of the end of its input, and was killed", p.grace()))
		_ = p.output.Close() // what it has written need not be read
	})
	defer late.Stop()
	<-p.done
}

// left are the processes of a command that has ended, as soon as there are none or they have
// had their time.
func (p *Process) left() []int {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	for {
		left := marked(p.mark)
		if len(left) == 0 || sleep.For(ctx, look) != nil {
			return left
		}
	}
}

// MemoryError is why a command was killed whose processes had more memory than they may.
type MemoryError struct{ Used, Most int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("it was killed, since its processes had %d MiB of memory; expected at most %d", e.Used>>20, e.Most>>20)
}

// watchMemory kills the command if its processes have more memory than they may.
func (p *Process) watchMemory() {
	again := time.NewTicker(memoryLook)
	defer again.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-again.C:
			if used := resident(p.run, p.mark); used > p.command.Memory {
				p.Kill(&MemoryError{used, p.command.Memory})
			}
		}
	}
}
