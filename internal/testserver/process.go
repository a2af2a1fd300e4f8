package testserver

import (
	"os/exec"
	"runtime"
)

// process is a running command whose end can be awaited by many.
type process struct {
	path string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // valid after done
}

// startProcess starts cmd from a thread that stays until the process has ended:
// on Linux the kernel kills the process when the thread that started it ends,
// which is how servers do not outlive a test process that is killed.
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
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// running is false once the process is known to have ended: any later answer at
// its address came from another process.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
