package testserver

import (
	"os/exec"
	"runtime"
)

// process is a running command with an end that several goroutines can await.
type process struct {
	path string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // valid after done
}

// startProcess starts cmd from a thread that lives until the process has ended:
// Linux kills the process when the thread that started it ends, so servers do
// not outlive a killed test process.
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
