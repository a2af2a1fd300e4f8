//go:build unix && !linux

package childprocess

import (
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// hold is what this program has of a command: the process group that it leads.
type hold struct {
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

// await waits for the end of the command, and for that of its group if it was asked to end: a shell
// ends at once, and what it has started still saves its work.
func (h *hold) await() (exit *ExitError, left int) {
	exit = exitOf(h.run.Wait())
	for h.asked.Load() && !h.killed.Load() && syscall.Kill(-h.run.Process.Pid, 0) == nil {
		time.Sleep(look) // nobody tells when the child of a child ends
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

func (h *hold) signal(s syscall.Signal) { _ = syscall.Kill(-h.run.Process.Pid, s) } // all may have ended

func (*hold) memory() (bytes int64, look bool) { return 0, false }

func (*hold) outgrown() bool { return false }

func (*hold) killedForMemory() bool { return false }

func (*hold) offline() bool { return false }

func (h *hold) close() {
	if h.guard != nil { // else it was never started
		h.kill()
		h.guard.end()
	}
}

// readOnly reports whether files elsewhere are kept from the command.
func (*hold) readOnly() bool { return false }
