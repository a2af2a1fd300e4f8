//go:build linux

package endtoend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/workers/clients/clientstest"
)

// programsExperiment has two trainings that are not ours: of clients by a program, and of the whole
// by a command whose model another one scores texts by.
const programsExperiment = `
name: ` + chaosName + `
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}, test: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%%, example_probability: 100%%, held_back: 2}
model: {kind: external}
grid:
  axes:
    training:
      - client_command: "%s"
        job: {rate: 0.5}
        rounds: 40
        cohort: 6
        chunks: 2
        privacy: {clip: 0.5, noise_multiplier: 0.1, delta: 1e-3}
      - {command: sh train.sh, code: trainer, deterministic: true, rounds: 12}
audit: {random_sampling: {references: 60}}
`

// programsTrainer does a round in a moment, and goes on from the last one.
const programsTrainer = `trap 'exit 75' TERM
n=$(cat checkpoint/n 2>/dev/null || echo 0)
[ $n != 0 ] || echo once > out/first
while [ $n -lt 12 ]; do
  n=$((n+1)); sleep 0.25
  echo "{\"round\":$n,\"loss\":$((20-n))}" >> out/metrics.jsonl
  echo $n > tmp/n; mv tmp/n checkpoint/n
done
cksum < in/train.jsonl > out/model
cat > out/result.json <<'END'
{"model":"out/model","score":"'%s' %s out/first"}
END
`

func newProgramsWorkspace(t testing.TB) workspace {
	w := workspace{t, t.TempDir()}
	w.write("experiment.yaml", fmt.Sprintf(programsExperiment, clientstest.Command()))
	w.write("text.jsonl", text())
	must.Do(t, os.Mkdir(filepath.Join(w.dir, "trainer"), 0o755))
	w.write("trainer/train.sh", fmt.Sprintf(programsTrainer, os.Args[0], serveTextsArgument))
	return w
}

// programFaults are the faults of a cluster that runs programs. Of workers two are killed at
// most, with their machine or without.
var programFaults = append([]*faultKind{
	{name: "program killed", weight: 12, most: 3, begin: killProgram},
	{name: "program frozen", weight: 6, begin: freezeProgram},
	{name: "worker killed, programs left", weight: 8, most: 1, begin: killWorkerOfPrograms},
	{name: "machine lost", weight: 8, most: 1, begin: loseMachine},
}, faultsNamed("coordinator killed", "worker frozen", "redis killed", "redis flushed", "way to redis cut", "s3 killed", "way to s3 cut",
	"s3 503", "s3 answer lost", "s3 truncated body", "blob deleted", "blob flipped", "run paused", "run cancelled", "worker drained")...)

func faultsNamed(names ...string) []*faultKind {
	return slices.DeleteFunc(slices.Clone(faultKinds), func(k *faultKind) bool { return !slices.Contains(names, k.name) })
}

// Programs of an experiment are killed and frozen, alone, with their worker and with its machine: the
// run ends with the same bytes, nothing is counted twice, and no program is left.
func TestChaosOfPrograms(t *testing.T) {
	t.Parallel()
	(&game{name: "programs", kinds: programFaults, workspace: newProgramsWorkspace, sources: 2, programs: true}).play(t)
}

// memberVariable stands in the environment of a member and of the programs that it has started.
const memberVariable = "CHAOS_MEMBER"

// mark tells the programs of a member from others; "" stands for the whole arena.
func (a *arena) mark(member string) []byte {
	return fmt.Appendf(nil, "%s=%d.%d/%s", memberVariable, os.Getpid(), a.plan.seed, member)
}

// ofPrograms are the variables of a process that runs programs. Files of its own go with its machine.
func (m *member) ofPrograms() []string {
	if !m.arena.programs {
		return nil
	}
	must.Do(m.arena.t, os.MkdirAll(m.temporary(), 0o755))
	return []string{string(m.arena.mark(m.name)), "TMPDIR=" + m.temporary()}
}

func (m *member) temporary() string { return filepath.Join(m.arena.dir, "temporary", m.name) }

// programsOf are the processes that a member has started, or all members if it is "".
func (a *arena) programsOf(member string) (pids []int) {
	paths := must.Get(filepath.Glob("/proc/[0-9]*/environ"))(a.t)
	for _, path := range paths {
		environment, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environment, a.mark(member)) {
			continue
		}
		dir := filepath.Dir(path)
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err != nil || bytes.HasPrefix(line, []byte(binary)) {
			continue // it has ended, or is the member
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// aProgram is one of those that run; 0 if none does.
func (a *arena) aProgram(r *rand.Rand) int {
	pids := a.programsOf("")
	if len(pids) == 0 {
		return 0
	}
	return pids[r.IntN(len(pids))]
}

func killProgram(a *arena, r *rand.Rand) func() {
	pid := a.aProgram(r)
	if pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return nil
	}
	return done
}

func freezeProgram(a *arena, r *rand.Rand) func() {
	pid := a.aProgram(r)
	if pid == 0 || !a.claim(pid) || syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return nil
	}
	return func() {
		a.release(pid)
		_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
	}
}

// killWorkerOfPrograms kills a worker alone: its children end by themselves.
func killWorkerOfPrograms(a *arena, r *rand.Rand) func() {
	m := a.pick(r, workerRole)
	if m == nil || !a.claim(m) {
		return nil
	}
	a.note("%s has the programs %v", m.name, a.programsOf(m.name))
	m.kill()
	a.awaitPrograms(m.name)
	return func() {
		a.release(m)
		m.start()
	}
}

// loseMachine ends a worker with all that it has started, and takes the files of both.
func loseMachine(a *arena, r *rand.Rand) func() {
	m := a.pick(r, workerRole)
	if m == nil || !a.claim(m) {
		return nil
	}
	programs := a.programsOf(m.name)
	m.kill()
	for _, pid := range programs {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	must.Do(a.t, os.RemoveAll(m.temporary()))
	return func() {
		a.release(m)
		m.start()
	}
}

// programPatience is how long programs may outlive their worker.
const programPatience = 10 * time.Second

// awaitPrograms waits until the programs of a member have ended, or of all if it is "".
func (a *arena) awaitPrograms(member string) {
	for deadline := time.Now().Add(programPatience); len(a.programsOf(member)) > 0; time.Sleep(tick) {
		if time.Now().After(deadline) {
			a.t.Errorf("programs of %q are left: %s", member, a.commandLines(member))
			return
		}
	}
}

func (a *arena) commandLines(member string) string {
	var lines []string
	for _, pid := range a.programsOf(member) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		lines = append(lines, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	return strings.Join(lines, "; ")
}
