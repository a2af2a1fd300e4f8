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

// hold is this program's handle of a command: its keeper, which is this program once more, under
// another name. The keeper is above all processes of the command, also those that have left its
// group, changed their environment or lost their parents, and outlives them.
type hold struct {
	run     *exec.Cmd // the keeper
	plan    plan
	report  *os.File
	reports *json.Decoder
	group   *cgroup  // nil where there is none
	writing *os.File // the keeper's end of its reports
	command int      // the id of its first process; as the keeper sees it
}

// maxReport is how much is read of a keeper's reports, in bytes.
const maxReport = 64 << 10

const (
	// keeperPatience is how long a keeper may take to end all processes before it is killed itself.
	keeperPatience = 5 * time.Second
	// startPatience is how long one may take to say that the command has started, which may have
	// stopped it.
	startPatience = 30 * time.Second
)

// newHold has a command run under a keeper.
func newHold(c *Command, run *exec.Cmd) (*hold, error) {
	if run.Err != nil {
		return nil, run.Err
	}
	h := &hold{run: run, plan: c.plan(possible()), group: newGroup(c.Memory, cmp.Or(c.processes, maxProcesses))}
	h.plan.Path, h.plan.Args, h.plan.Dir, h.plan.Group = run.Path, run.Args, run.Dir, h.group != nil
	if err := h.disguise(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// disguise has the command's place taken by its keeper.
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
	h.run.ExtraFiles = append([]*os.File{writing}, h.group.files()...)
	h.run.SysProcAttr = h.plan.attributes()
	return nil
}

// ownProgram is this program, also if its file has gone or was replaced.
const ownProgram = "/proc/self/exe"

// attributes are those of a keeper. It ends with this program.
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

// namespaces are those that a keeper is started in. Making the others takes one of users.
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

// begun waits until the keeper has started the command, or says why not.
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
		return fmt.Errorf("what looks after it has ended: %w", err)
	}
	return errors.New(r.Error)
}

// await waits until nothing is left of the command, and says how it ended and how many processes
// had to be killed after it.
func (h *hold) await() (exit *ExitError, left int) {
	var r report
	err := h.reports.Decode(&r)
	_ = h.run.Wait() // its report says all
	if err != nil {
		r = report{Status: uint32(syscall.SIGKILL)}
		h.killGroup()
	}
	h.group.kill()
	return exitOf(syscall.WaitStatus(r.Status)), r.Left
}

// killGroup kills the processes that a killed keeper may have left.
func (h *hold) killGroup() {
	if !h.plan.Processes && h.command > 0 {
		_ = syscall.Kill(-h.command, syscall.SIGKILL) // all may have ended
	}
}

// exitOf is nil for exit status 0.
func exitOf(s syscall.WaitStatus) *ExitError {
	switch {
	case s.Signaled():
		return &ExitError{Status: -1, how: "signal: " + s.Signal().String()}
	case s.ExitStatus() != 0:
		return &ExitError{Status: s.ExitStatus(), how: fmt.Sprintf("exit status %d", s.ExitStatus())}
	}
	return nil
}

// terminate asks all processes to end.
func (h *hold) terminate() { _ = h.run.Process.Signal(syscall.SIGTERM) } // it may have ended

// kill ends all processes at once.
func (h *hold) kill() {
	h.group.kill()
	if h.plan.Processes {
		_ = h.run.Process.Kill() // it may have ended
		return
	}
	_ = h.run.Process.Signal(endAll)
	_ = h.run.Process.Signal(syscall.SIGCONT) // should one of them have stopped it
	time.AfterFunc(keeperPatience, func() { _ = h.run.Process.Kill() })
}

// memory is the resident memory of the processes, in bytes, if polling bounds it.
func (h *hold) memory() (bytes int64, look bool) {
	if h.group.boundsMemory() {
		return 0, false
	}
	return residentBelow(h.run.Process.Pid), true
}

// outgrown reports whether processes were killed because they wanted more memory than they may have.
func (h *hold) outgrown() bool { return h.group.outgrown() }

// killedForMemory reports whether the system has killed processes for want of memory.
func (h *hold) killedForMemory() bool { return h.group.killedForMemory() }

// readOnly reports whether files elsewhere are kept from the command.
func (h *hold) readOnly() bool { return h.plan.ReadOnly }

// close lets go of all that the command has needed, once it has ended.
func (h *hold) close() {
	if h.report != nil {
		h.report.Close()
		h.writing.Close()
	}
	h.group.remove()
}
