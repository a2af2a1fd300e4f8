package endtoend_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
)

// patience is how long anything may take before a test gives up on it. It is
// long: the machine may be busy with other tests.
const patience = 3 * time.Minute

// process is a running command.
type process struct {
	t              testing.TB
	name           string
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{} // closed when the process has ended
}

// command describes a process to start: args[0] is the program, the environment
// has env on top of the system's, without any variable that configures coalmine.
type command struct {
	name string
	args []string
	env  []string
	dir  string
	// log is a file to which standard error is appended, in place of the test's
	// own log; empty for none.
	log string
	// quiet commands are not shown when the test fails: their caller reports
	// the relevant output.
	quiet bool
}

// start runs a command until it ends or the test does.
func start(t testing.TB, c command) *process {
	t.Helper()
	p := &process{t: t, name: c.name, cmd: exec.Command(c.args[0], c.args[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = c.dir, append(cleanEnvironment(), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if c.log != "" {
		file := must.Get(os.OpenFile(c.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))(t)
		defer file.Close() // the process has it by then
		p.cmd.Stderr = file
	}
	dieWithTests(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", c.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && c.log == "" && !c.quiet {
			t.Logf("%s %q ended with %d and printed:\n%s%s", p.name, p.cmd.Args, p.exitCode(), p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// cleanEnvironment is the environment of the tests without variables that
// configure the processes.
func cleanEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COALMINE_") && !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "OTEL_") {
			env = append(env, v)
		}
	}
	return env
}

// kill is kill -9. It returns when the process has gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.ended
}

// signal sends a signal to a process, which may have ended.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended after %s", p.name, patience)
	}
	return p.exitCode()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// exitCode is that of a process that has ended; -1 for one that was killed.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// await asks until ok, and fails the test if the process ends first or the test
// runs out of patience.
func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	if !p.awaitUnlessEnded(what, ok) && !ok() {
		p.t.Fatalf("%s has ended before: %s", p.name, what)
	}
}

// awaitUnlessEnded is await for a process that may end; it reports whether ok
// came first.
func (p *process) awaitUnlessEnded(what string, ok func() bool) bool {
	p.t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-p.ended:
			return false
		case <-deadline:
			p.t.Fatalf("%s: waited in vain for: %s", p.name, what)
		case <-again.C:
		}
	}
	return true
}

// result is the result of a command that has ended.
type result struct {
	code           int
	stdout, stderr string
}

func run(t testing.TB, c command) result {
	t.Helper()
	p := start(t, c)
	code := p.wait()
	return result{code, p.stdout.String(), p.stderr.String()}
}

// printed runs a command, which must succeed, and returns its output.
func printed(t testing.TB, c command) string {
	t.Helper()
	r := run(t, c)
	if r.code != 0 {
		t.Fatalf("%s %q: exit status %d\n%s", c.name, c.args, r.code, r.stderr)
	}
	return r.stdout
}

// succeeds reports whether a command does; for health checks.
func succeeds(t testing.TB, c command) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Env = append(cleanEnvironment(), c.env...)
	dieWithTests(cmd)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s is not healthy yet: %v: %s", c.name, err, bytes.TrimSpace(text))
	}
	return err == nil
}

// output collects the output of a process.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
