// Package testserver starts private servers for tests: a Redis and an S3-compatible store (versitygw),
// each on a free port of the loopback interface with its files in the test's temporary directory.
//
//	redis := testserver.StartRedis(t)
//	client.Dial(redis.Addr())
//	redis.Kill()    // kill -9
//	redis.Restart() // same address, same files
//
// A test whose server is not installed is skipped with a message that explains the
// installation. Servers end with their test, and with the test process even if it
// is killed. When a test fails, its log contains the output of its servers.
//
// Proxies stand between processes and their servers, for tests of failures of the network or the server.
// A Link carries TCP connections to one server, and can cut, stall, slow or lose them:
//
//	link := testserver.NewLink(t, redis.Addr())
//	dial(link.Addr())
//	link.Set(testserver.Stalled) // nothing passes for now
//	link.Set(testserver.Open)
//
// A Front forwards HTTP requests to one server, and damages the answers that a test selects:
//
//	front := testserver.NewFront(t, s3.Addr())
//	front.SetFault(func(r *http.Request) testserver.Fault {
//		if r.Method == http.MethodPut {
//			return testserver.Unanswered // executed, but the client sees a reset
//		}
//		return testserver.None
//	})
package testserver

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/internal/build"
	"coalmine/internal/clone"
	"coalmine/internal/must"
)

// readyTimeout is the time for a server to answer. A machine busy with other tests can be slow.
const readyTimeout = 30 * time.Second

// startTries limits the choices of a free port: another process can take it before the server does.
const startTries = 5

// server is one server process that can be killed and started again.
type server struct {
	t     testing.TB
	name  string
	addr  string // host:port
	args  func(addr string) []string
	env   []string
	ready func(addr string) error

	mu      sync.Mutex
	process *process
	output  output
}

// start runs the binary on a free port and waits until it is ready.
func (s *server) start(binary string) {
	s.t.Helper()
	s.t.Cleanup(func() {
		s.Kill()
		if s.t.Failed() {
			s.t.Logf("%s at %s printed:\n%s", s.name, s.addr, s.output.String())
		}
	})
	var err error
	for range startTries {
		s.addr = FreeAddress(s.t)
		if err = s.launch(binary); err == nil {
			return
		}
	}
	s.t.Fatalf("%s did not start: %v\n%s", s.name, err, s.output.String())
}

func (s *server) launch(binary string) error {
	cmd := exec.Command(binary, s.args(s.addr)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	if err := s.awaitReady(p); err != nil {
		p.kill()
		return err
	}
	return nil
}

// awaitReady polls until the server answers or its process ends.
func (s *server) awaitReady(p *process) error {
	deadline := time.After(readyTimeout)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ready(s.addr)
		if err == nil && p.running() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w", p.err)
		case <-deadline:
			return fmt.Errorf("no answer after %s: %w", readyTimeout, err)
		case <-again.C:
		}
	}
}

// Kill ends the server at once (kill -9) and returns when it is gone. It may be called again.
func (s *server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.kill()
	}
}

// Signal sends a signal to the server, which may have ended.
func (s *server) Signal(signal os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.process.cmd.Process.Signal(signal)
}

// Restart starts the server again at the same address on the same files, killing
// it first if it runs, and returns when it answers.
func (s *server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.launch(s.process.path); err != nil {
		s.t.Fatalf("%s did not start again: %v\n%s", s.name, err, s.output.String())
	}
}

// Addr returns the server's host:port; it stays the same over restarts.
func (s *server) Addr() string { return s.addr }

// FreeAddress returns a currently unused host:port of the loopback interface.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, l.Close())
	return l.Addr().String()
}

// RefusingAddress returns an address of this machine that refuses connections while the test runs. It is the
// client's end of an open connection: unlike a free address, no listener can take it.
func RefusingAddress(t testing.TB) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() }) // the test is over
	conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn.LocalAddr().String()
}

// find returns the path of a server's binary: from the environment variable, else from PATH, else from
// .tools/bin in the root of the repository. It skips the test if there is none.
func find(t testing.TB, binary, variable, install string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return path
	}
	if path, err := exec.LookPath(binary); err == nil {
		return path
	}
	if root, ok := clone.Root(); ok {
		path := filepath.Join(root, ".tools", "bin", binary)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed: %s, or set %s", binary, install, variable)
	return ""
}

// output keeps the last part of a server's output.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxOutput = 64 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	if extra := o.buf.Len() - maxOutput; extra > 0 {
		o.buf.Next(extra)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a running command with an end that several goroutines can await.
type process struct {
	path string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // valid after done
}

// startProcess starts cmd from a thread that lives until the process has ended: Linux kills the process
// when the thread that started it ends, so servers do not outlive a killed test process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{path: cmd.Path, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	return p, <-started
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has already ended
	<-p.done
}

// running returns false once the process is known to have ended: any later
// answer at its address comes from another process.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// RedisServer returns the path of redis-server, for tests that start it
// themselves. It skips the test if there is none.
func RedisServer(t testing.TB) string {
	t.Helper()
	return find(t, "redis-server", "COALMINE_REDIS_SERVER", "install Debian's package redis-server")
}

// Versitygw returns the path of versitygw, like RedisServer.
func Versitygw(t testing.TB) string {
	t.Helper()
	return find(t, "versitygw", "COALMINE_VERSITYGW",
		"go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 (scripts/setup.sh does)")
}

// InCheck skips a test unless COALMINE_CHECK is set, as make check sets it. The test's name must
// contain part, with which make check selects it.
func InCheck(t testing.TB, part string) {
	t.Helper()
	if !strings.Contains(t.Name(), part) {
		t.Fatalf("make check runs tests by the name %s: rename %s", part, t.Name())
	}
	if os.Getenv("COALMINE_CHECK") == "" {
		t.Skip("make check runs it, and each test with COALMINE_CHECK=1")
	}
}

// WithoutRace skips a test whose arithmetic in one goroutine takes minutes under the race detector.
func WithoutRace(t testing.TB) {
	t.Helper()
	if build.Race {
		t.Skip("arithmetic that takes minutes under the race detector; other tests race the same goroutines")
	}
}

// Python returns a Python that has the modules, separated by commas, for a test of make check, named
// ...Elsewhere. It skips the test if there is none.
func Python(t testing.TB, modules string) string {
	t.Helper()
	InCheck(t, "Elsewhere")
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second has Debian's packages
		if exec.CommandContext(t.Context(), name, "-c", "import "+modules).Run() == nil {
			return name
		}
	}
	t.Skipf("no python3 with %s: scripts/setup.sh check installs it where it may", modules)
	return ""
}
