package endtoend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/must"
	"coalmine/workers/clients/clientstest"
)

// clientsFile is a federation whose clients a program trains. The program's command line ends
// with the workspace, by which its processes are found.
const clientsFile = `
name: clients
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, test: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%%, example_probability: 100%%, held_back: 2}
model: {kind: external}
training:
  client_command: "%s"
  job: {rate: 0.5}
  rounds: 60
  cohort: 6
  chunks: 2
  privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-3}
audit: {every: 50%%, random_sampling: {references: 60}}
`

// clientsWorkspace has the experiment with a program of its own, and the name of a home.
func clientsWorkspace(t *testing.T, program string) workspace {
	t.Helper()
	w := newWorkspace(t)
	w.write("experiment.yaml", fmt.Sprintf(clientsFile, program))
	return w
}

// programs are the processes whose command line has some text, other than shells.
func programs(text string) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(text)) || bytes.HasPrefix(line, []byte("sh\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Processes are killed, the run's and its programs', at any moment: the run ends with the same
// bytes, and nobody is left.
func TestAFederationOfAProgramOutlivesKills(t *testing.T) {
	t.Parallel()
	// The program is a part of the key, so that both runs have the same one.
	line := clientstest.Command() + " federation-" + strconv.Itoa(os.Getpid())
	peaceful := clientsWorkspace(t, line)
	printed(t, peaceful.coalmine("run", "experiment.yaml"))
	want := peaceful.results()
	w := clientsWorkspace(t, line)
	random := rand.New(rand.NewPCG(3, 7))
	mark := line[strings.LastIndex(line, " ")+1:]
	for i := range 3 {
		p := start(t, w.coalmine("run", "experiment.yaml"))
		p.await("some nodes are committed", w.progressed(3+random.IntN(25)))
		for _, pid := range programs(mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		p.await("more nodes are committed", w.progressed(3+random.IntN(10)))
		p.kill()
		if code := p.exitCode(); code != -1 {
			t.Fatalf("run %d ended by itself with exit status %d before it was killed", i, code)
		}
		must.Await(t, "its programs have ended", func() bool { return len(programs(mark)) == 0 })
	}
	last := run(t, w.coalmine("run", "experiment.yaml"))
	if last.code != 0 || !strings.Contains(last.stderr, "continuing run") {
		t.Fatalf("after the kills: exit status %d\n%s", last.code, last.stderr)
	}
	if got := w.results(); got != want {
		t.Errorf("the results after kills are\n%s\nwant\n%s", got, want)
	}
	if left := programs(mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
