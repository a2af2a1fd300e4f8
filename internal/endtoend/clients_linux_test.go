package endtoend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

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

// torchFile is trained in PyTorch.
const torchFile = `
name: torch
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, test: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%%, example_probability: 100%%, held_back: 2}
model: {kind: gru, embedding: 8, units: 8}
training: {engine: pytorch, pytorch: {users: 2}, rounds: 40, cohort: 6, client: {learning_rate: 1}, %s}
audit: {random_sampling: {references: 60}}
`

// The processes of the shipped trainer are killed at any moment: the training ends with the same bytes.
func TestTrainingsInPyTorchOutliveKillsElsewhere(t *testing.T) {
	python := must.Get(exec.LookPath(testserver.Python(t, "torch")))(t)
	for name, algorithm := range map[string]string{"FedAvg": "algorithm: fedavg, chunks: 2", "SGD": "algorithm: sgd, steps_per_task: 2"} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			w.write("experiment.yaml", fmt.Sprintf(torchFile, algorithm))
			printed(t, w.torch(python, "run", "experiment.yaml", "--home", "peaceful"))
			want := printed(t, w.coalmine("results", "--format", "json", "--home", "peaceful"))
			p := start(t, w.torch(python, "run", "experiment.yaml"))
			random := rand.New(rand.NewPCG(5, 2))
			for range 4 {
				p.await("more nodes are committed", w.progressed(1+random.IntN(3)))
				p.await("a trainer is killed", func() bool { return killed(w.mark()) })
			}
			if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(), "it ended with signal: killed") {
				t.Fatalf("after kills of its trainers, the run ends with exit status %d", code)
			}
			if got := w.results(); got != want {
				t.Errorf("the results after kills are\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// mark is a part of the command lines of the trainers that commands of torch start.
func (w workspace) mark() string { return "workspace=" + w.dir }

// torch is a command whose trainers run under an interpreter, and have the mark.
func (w workspace) torch(python string, args ...string) command {
	w.t.Helper()
	folder := filepath.Join(w.dir, "bin")
	must.Do(w.t, os.MkdirAll(folder, 0o755))
	must.Do(w.t, os.WriteFile(filepath.Join(folder, "python3"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -X '%s' \"$@\"\n", python, w.mark()), 0o755))
	c := w.coalmine(args...)
	c.env = []string{"PATH=" + folder + ":" + os.Getenv("PATH")}
	return c
}

// killed kills the processes with a mark, and reports whether there was one.
func killed(mark string) (some bool) {
	for _, pid := range programs(mark) {
		some = syscall.Kill(pid, syscall.SIGKILL) == nil || some
	}
	return some
}
