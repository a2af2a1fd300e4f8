package childprocess

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// parent is the argument by which the test's program runs a command for ever, and prints the ids
// of what that has started.
const parent = "be-a-parent"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != parent {
		os.Exit(m.Run())
	}
	p, err := Command{Args: []string{"sh", "-c", os.Args[2]}}.Start()
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(p.Output)
	for lines.Scan() {
		os.Stdout.WriteString(lines.Text() + "\n")
	}
}

// A program that is killed takes with it what its commands have started, in whatever group.
func TestNothingOutlivesAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	run := exec.Command(os.Args[0], parent, "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; echo $$; wait")
	output, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	var pids []int
	for range 3 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
}

// awaitEnd waits until a process has ended. One that nobody has waited for has, too.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(20 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-deadline:
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d outlives the program: %s", pid, stat)
		case <-again.C:
		}
	}
}
