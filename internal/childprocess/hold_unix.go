//go:build unix && !linux

package childprocess

import (
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// hold is this program's handle of a command: the process group that it leads.
type hold struct {
	unconfined
	run    *exec.Cmd
	guard  *guard
	asked  atomic.Bool // to end
	killed atomic.Bool
}

func newHold(_ *Command, run *exec.Cmd) (*hold, error) {
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return &hold{run: run}, nil
}

func (h *hold) begun() error {
	h.guard = startGuard(h.run.Process.Pid)
	return nil
}

// await waits for the end of the command, and also for the end of its group if it was asked to end:
// a shell ends at once while its children still save their work.
func (h *hold) await() (exit *ExitError, left int) {
	exit = exitOf(h.run.Wait())
	for h.asked.Load() && !h.killed.Load() && syscall.Kill(-h.run.Process.Pid, 0) == nil {
		time.Sleep(look) // the end of a grandchild has no event
	}
	return exit, 0
}

func (h *hold) terminate() {
	h.asked.Store(true)
	h.signal(syscall.SIGTERM)
}

func (h *hold) kill() {
	h.killed.Store(true)
	h.signal(syscall.SIGKILL)
}

func (h *hold) signal(s syscall.Signal) { _ = syscall.Kill(-h.run.Process.Pid, s) } // all processes may have ended

func (h *hold) close() {
	if h.guard != nil { // else it was never started
		h.kill()
		h.guard.end()
	}
}

// guarding waits for the end of its input, which ends with this program, and then kills the group
// of a command ($1).
const guarding = `trap '' TERM INT HUP
read -r nothing
kill -9 "-$1"`

// guard is a process that outlives this program, to end the command if this program is killed.
type guard struct {
	run  *exec.Cmd
	held *os.File // open as long as this program lives
}

// startGuard guards a running command. It returns nil without a shell, or if no more processes can
// be started.
func startGuard(group int) *guard {
	input, held, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer input.Close()
	g := &guard{run: exec.Command("/bin/sh", "-c", guarding, "guard", strconv.Itoa(group)), held: held}
	g.run.Stdin, g.run.Env = input, []string{"PATH=/usr/bin:/bin"}
	g.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not reached by signals to this program's group
	if err := g.run.Start(); err != nil {
		held.Close()
		return nil
	}
	return g
}

// end ends the guard of a command without remaining processes.
func (g *guard) end() {
	if g == nil {
		return
	}
	_ = g.run.Process.Kill()
	_ = g.run.Wait() // it was killed
	g.held.Close()
}
