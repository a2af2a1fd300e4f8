package childprocess

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hold is this program's handle of a command: its keeper, which is this program run again under
// another name. The keeper is the ancestor of all processes of the command, including those that
// left its group, changed their environment or lost their parents, and outlives them.
type hold struct {
	run     *exec.Cmd // the keeper
	plan    plan
	report  *os.File
	reports *json.Decoder
	*cgroup          // nil without a control group
	writing *os.File // the keeper's end of its reports
	command int      // the id of its first process, in the keeper's namespace
}

// maxReport is the limit on a keeper's reports, in bytes.
const maxReport = 64 << 10

const (
	// keeperPatience is the time for a keeper to end all processes before it is killed itself.
	keeperPatience = 5 * time.Second
	// startPatience is the time to report the start of the command, which may have stopped the keeper.
	startPatience = 30 * time.Second
)

// newHold prepares a command to run under a keeper.
func newHold(c *Command, run *exec.Cmd) (*hold, error) {
	if run.Err != nil {
		return nil, run.Err
	}
	h := &hold{run: run, plan: c.plan(possible()), cgroup: newGroup(c.Memory, cmp.Or(c.processes, maxProcesses))}
	h.plan.Path, h.plan.Args, h.plan.Dir, h.plan.Group = run.Path, run.Args, run.Dir, h.cgroup != nil
	if err := h.disguise(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// disguise replaces the command by its keeper.
func (h *hold) disguise() error {
	text, err := json.Marshal(h.plan)
	if err != nil {
		return err
	}
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	h.report, h.writing = reading, writing
	h.reports = json.NewDecoder(io.LimitReader(reading, maxReport))
	h.run.Path, h.run.Args, h.run.Dir = ownProgram, []string{keeperName, string(text)}, ""
	h.run.ExtraFiles = append([]*os.File{writing}, h.cgroup.files()...)
	h.run.SysProcAttr = h.plan.attributes()
	return nil
}

// ownProgram is this program, even if its file was removed or replaced.
const ownProgram = "/proc/self/exe"

// attributes returns the attributes of a keeper's process. It ends with this program.
func (i isolation) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: endAll}
	if i.Processes {
		a.Pdeathsig = syscall.SIGKILL // its processes end with it
	}
	if flags := i.namespaces(); flags != 0 {
		a.Cloneflags = flags
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN}
	}
	return a
}

// namespaces returns the flags of a keeper's namespaces. Making the others requires a user namespace.
func (i isolation) namespaces() (flags uintptr) {
	for flag, wanted := range map[uintptr]bool{
		syscall.CLONE_NEWNET: i.Network, syscall.CLONE_NEWPID: i.Processes, syscall.CLONE_NEWNS: i.Processes || i.Files,
	} {
		if wanted {
			flags |= flag | syscall.CLONE_NEWUSER
		}
	}
	return flags
}

// begun waits until the keeper has started the command, or returns its error.
func (h *hold) begun() error {
	h.writing.Close()
	defer time.AfterFunc(startPatience, h.kill).Stop()
	var r report
	err := h.reports.Decode(&r)
	if err == nil && r.Error == "" {
		h.command = r.Process
		return nil
	}
	_ = h.run.Process.Kill() // it may have ended
	_ = h.run.Wait()         // it has sent its last message
	if err != nil {
		return fmt.Errorf("its keeper has ended: %w", err)
	}
	return errors.New(r.Error)
}

// await waits until no process of the command remains. It returns the exit error and the number of
// processes killed after it.
func (h *hold) await() (exit *ExitError, left int) {
	var r report
	err := h.reports.Decode(&r)
	_ = h.run.Wait() // its report has the result
	if err != nil {
		r = report{Status: uint32(syscall.SIGKILL)}
		h.killGroup()
	}
	h.cgroup.kill()
	return exitOf(syscall.WaitStatus(r.Status)), r.Left
}

// killGroup kills the processes that a killed keeper may have left.
func (h *hold) killGroup() {
	if !h.plan.Processes && h.command > 0 {
		_ = syscall.Kill(-h.command, syscall.SIGKILL) // all may have ended
	}
}

// exitOf returns nil for exit status 0.
func exitOf(s syscall.WaitStatus) *ExitError {
	switch {
	case s.Signaled():
		return &ExitError{Status: -1, how: "signal: " + s.Signal().String()}
	case s.ExitStatus() != 0:
		return &ExitError{Status: s.ExitStatus(), how: fmt.Sprintf("exit status %d", s.ExitStatus())}
	}
	return nil
}

func (h *hold) terminate() { _ = h.run.Process.Signal(syscall.SIGTERM) } // it may have ended

func (h *hold) kill() {
	h.cgroup.kill()
	if h.plan.Processes {
		_ = h.run.Process.Kill() // it may have ended
		return
	}
	_ = h.run.Process.Signal(endAll)
	_ = h.run.Process.Signal(syscall.SIGCONT) // in case one of them stopped the keeper
	time.AfterFunc(keeperPatience, func() { _ = h.run.Process.Kill() })
}

// memory returns the resident memory of the processes, in bytes; look reports whether it must be polled.
func (h *hold) memory() (bytes int64, look bool) {
	if h.cgroup != nil {
		return 0, false
	}
	return residentBelow(h.run.Process.Pid), true
}

// readOnly reports whether files outside the permitted directories are read-only.
func (h *hold) readOnly() bool { return h.plan.ReadOnly }

// close releases the resources of a command that has ended.
func (h *hold) close() {
	if h.report != nil {
		h.report.Close()
		h.writing.Close()
	}
	h.cgroup.remove()
}
