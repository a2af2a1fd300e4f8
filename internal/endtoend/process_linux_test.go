package endtoend_test

import (
	"os/exec"
	"syscall"
)

// dieWithTests has the kernel kill a process when the tests are killed.
func dieWithTests(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
