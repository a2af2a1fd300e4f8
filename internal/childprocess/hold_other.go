//go:build !unix

package childprocess

import "os/exec"

// hold is this program's handle of a command: its process.
type hold struct {
	unconfined
	run *exec.Cmd
}

func newHold(_ *Command, run *exec.Cmd) (*hold, error) { return &hold{run: run}, nil }

func (*hold) begun() error { return nil }

func (h *hold) await() (exit *ExitError, left int) { return exitOf(h.run.Wait()), 0 }

func (h *hold) terminate() { h.kill() } // there is no gentler way

func (h *hold) kill() { _ = h.run.Process.Kill() } // it may have ended

func (*hold) close() {}
