//go:build unix

package childprocess

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
)

// shell is a command line that runs until its test ends.
func shell(t *testing.T, c Command, line string) *Process {
	t.Helper()
	c.Args = []string{"sh", "-c", line}
	p := must.Get(c.Start())(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestCommandInputAndOutput(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{}, "cat; echo bye")
	fmt.Fprintln(p.Input, "hello")
	lines := bufio.NewReader(p.Output)
	if line, err := lines.ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if err := p.Input.Close(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(lines); string(rest) != "bye\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseReportsEndOfCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"exit 3": "it ended with exit status 3", "kill -9 $$": "it ended with signal: killed"} {
		must.Say(t, shell(t, Command{}, line).Close(), want)
	}
	for line, want := range map[string]string{
		"exec sleep 1000": "it did not end within 50ms of the end of its input, and was killed",
		"cat >&2; exec yes overflowing 'a pipe that nobody reads'": "it did not end within 50ms",
	} {
		must.Say(t, shell(t, Command{Grace: 50 * time.Millisecond}, line).Close(), want)
	}
	_, err := (Command{Args: []string{"/no/such/program"}}).Start()
	must.Say(t, err, `"/no/such/program" cannot be started: `)
}

func TestLastStderrLinesAreKept(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{}, `seq 100000 >&2; printf '\033[31mred\tline\n\n\377 last' >&2; exit 1`)
	if err := p.Close(); err == nil {
		t.Error("exit status 1 is no error")
	}
	if got, want := p.LastLines(), []string{"99997", "99998", "99999", "100000", "[31mred line", "? last"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	long := &tail{}
	fmt.Fprint(long, strings.Repeat("ä", 400))
	if got := long.lines(); len(got) != 1 || got[0] != strings.Repeat("ä", 300)+"..." {
		t.Errorf("a long line is kept as %q", got)
	}
}

// Processes that a command leaves end with it, also those that have gone to sessions of their
// own and hold its output open.
func TestCloseKillsDetachedProcesses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what is left behind is looked for on Linux alone")
	}
	p := shell(t, Command{}, "sleep 1000 & exec setsid sleep 1000 2>/dev/null & exit 0")
	if err := p.Close(); err == nil || err.Error() != "it ended and left 2 processes behind, which were killed" {
		t.Errorf("got %v", err)
	}
}

func TestKillReportsReason(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{}, "sleep 1000 & sleep 1001")
	p.Kill(fmt.Errorf("it was no longer wanted"))
	<-p.Done()
	if err := p.Close(); err == nil || err.Error() != "it was no longer wanted" {
		t.Errorf("got %v", err)
	}
}

// A shell that is asked to end ends at once. Its children are asked as well, have the whole
// grace to save their work, and may write: here for longer than orphans may live.
func TestGraceCoversAllProcesses(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{Quiet: true, Grace: time.Minute}, `sh -c 'trap "sleep 3.2; echo saved; exit 0" TERM; echo ready; while :; do sleep 0.01; done'; true`)
	awaitLine(t, p, "ready")
	p.Terminate(fmt.Errorf("it was paused"))
	if got := p.LastLines(); !slices.Contains(got, "saved") || p.Deaf() {
		t.Errorf("it said %q, killed %v; want that it has saved its work", got, p.Deaf())
	}
	if err := p.Close(); err == nil || err.Error() != "it was paused" {
		t.Errorf("got %v", err)
	}
}

// One that does not listen, and has a session of its own, is killed after the grace.
func TestProcessesAreKilledAfterGrace(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what has left the group is looked for on Linux alone")
	}
	p := shell(t, Command{Quiet: true, Grace: 100 * time.Millisecond}, `setsid sh -c 'trap "" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
	awaitLine(t, p, "ready")
	p.Terminate(fmt.Errorf("it was paused"))
	if !p.Deaf() {
		t.Error("it is said to have ended in time")
	}
}

// awaitLine waits until a command has said something.
func awaitLine(t *testing.T, p *Process, line string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !slices.Contains(p.LastLines(), line) {
		select {
		case <-p.Done():
			t.Fatalf("it ended before it has said %q: %v", line, p.Ended())
		case <-again.C:
		}
	}
}

func TestMemoryLimitCountsAllProcesses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("memory is looked at in /proc, which this system has not")
	}
	const grows = `a=$(head -c 64000000 /dev/zero | tr "\0" x); sleep 1000`
	for _, line := range []string{grows, "setsid sh -c '" + grows + "' & wait"} {
		p := shell(t, Command{Terms: Terms{Memory: 24 << 20}}, line)
		<-p.Done()
		if err := p.Ended(); err == nil || !strings.Contains(err.Error(), "MiB of memory; expected at most 24") && !strings.Contains(err.Error(), "wanted more than the 24 MiB") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// The environment is shared by tests.
func TestOnlyListedVariablesArePassedOn(t *testing.T) {
	want := map[string]bool{
		"OMP_NUM_THREADS=1": true, "TOKENIZERS_PARALLELISM=false": true, "LC_ALL=C": true, "PYTHONHASHSEED=0": true, "HTTP_PROXY=http://proxy:8080/@": true,
		"HF_TOKEN=kept": true, "MY_DATA=kept": true,
		"HFTOKEN=1": false, "AZURE_STORAGE_CONNECTION_STRING=AccountKey=1": false, "AWS_PROFILE=me": false, "COALMINE_TOKEN=1": false,
		"SSH_AUTH_SOCK=/run/agent": false, "DATABASE_URL=postgres://me:1@db/data": false, "HTTPS_PROXY=http://me:1@proxy:8080": false,
		"JAX_COMPILATION_CACHE_DIR=/tmp": true, "NCCL_DEBUG=INFO": true, "CUDA_VISIBLE_DEVICES=0": true, "TORCH_HOME=/tmp": true,
		"JAX_PWD=1": false, "JAX_DB_PSWD=1": false, "TORCH_CREDS=1": false, "PYTHON_PW=1": false, "PYTHON_PIN=1": false, "NCCL_LOGIN=1": false,
		"MKL_SAS=1": false, "CUDA_JWT=1": false, "PYTORCH_SESSION_COOKIE=1": false, "JAX_DB_CONNECTION_STRING=1": false, "TORCH_API_KEY=1": false, "SOME_NAME=1": false,
	}
	for variable := range want {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	p := shell(t, Command{Terms: Terms{Environment: []string{"HF_TOKEN", "MY_DATA", "IS_NOT_SET"}}}, "env")
	got := must.Get(io.ReadAll(p.Output))(t)
	lines := strings.Split(string(got), "\n")
	for variable, passed := range want {
		if slices.Contains(lines, variable) != passed {
			t.Errorf("%q is passed on: %v, want %v", variable, !passed, passed)
		}
	}
	if !strings.Contains(string(got), "PATH=") {
		t.Error("PATH is not passed on")
	}
}
