package childprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperName is the name of a keeper's process. A program of this name is always a
// keeper.
const keeperName = "coalmine-keeper"

// endAll is the signal by which a keeper ends all processes at once.
const endAll = syscall.SIGUSR1

// The files that a keeper finds beside those of the command.
const (
	reportFile = 3
	groupFile  = 4
)

// plan is a keeper's task.
type plan struct {
	// Path is the program, with its arguments; "" for none: the keeper tries the
	// restrictions that it can impose.
	Path string
	Args []string
	Dir  string
	isolation
	// Hide are files and directories that appear empty where Files is set.
	Hide []string
	// ReadOnly makes the other files read-only, but for the directories of Write; those of Read are
	// handed over beside them.
	ReadOnly    bool
	Write, Read []string
	// Shared bounds the bytes of files in shared memory; 0 for the system's bound.
	Shared int64
	// Most is how many processes it may have at a time, where that is bounded.
	Most int
	// Group says that there is a control group to start it in.
	Group bool
}

// report is a keeper's message: first that the command has started, or the error, then
// its end.
type report struct {
	Error   string `json:",omitempty"`
	Process int    `json:",omitempty"`
	Status  uint32 `json:",omitempty"` // a syscall.WaitStatus
	Left    int    `json:",omitempty"` // processes that were killed after it
}

// This is no command of the program's, since a command is also run by tests, which have no commands.
func init() {
	if os.Args[0] == keeperName {
		keep()
		os.Exit(0)
	}
}

// keep is the whole life of a keeper.
func keep() {
	runtime.LockOSThread() // one thread gives up its rights and starts the command
	keepFilesFromCommand()
	reports := json.NewEncoder(os.NewFile(reportFile, "reports"))
	k := &keeper{asked: signals(syscall.SIGTERM), told: signals(endAll), changed: signals(syscall.SIGCHLD)}
	if err := k.start(); err != nil {
		_ = reports.Encode(report{Error: err.Error()}) // if nobody reads it, nobody is there
		return
	}
	_ = reports.Encode(report{Process: k.command})
	if k.command != 0 {
		k.await()
		_ = reports.Encode(report{Status: uint32(k.status), Left: k.left()})
	}
}

// keepFilesFromCommand leaves the command its input and its two outputs: not the keeper's own files, and
// none that this program has inherited from its own parent.
func keepFilesFromCommand() {
	for fd := reportFile; fd <= groupFile; fd++ {
		syscall.CloseOnExec(fd)
	}
	open, _ := os.ReadDir("/proc/self/fd") // without it the files of this program alone are known
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd >= reportFile {
			syscall.CloseOnExec(fd)
		}
	}
}

func signals(s os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 1) // one more of a signal that is waiting says nothing new
	signal.Notify(c, s)
	return c
}

// keeper looks after the processes of one command.
type keeper struct {
	plan    plan
	command int // its first process
	asked   <-chan os.Signal
	told    <-chan os.Signal
	changed <-chan os.Signal

	status  syscall.WaitStatus
	ended   bool // the first process
	late    bool // others had to be killed after it
	killing bool
	killed  int // processes that have ended since
}

// left is how many processes the command has left behind.
func (k *keeper) left() int {
	if k.late {
		return k.killed
	}
	return 0
}

// start makes the command's surroundings and starts it.
func (k *keeper) start() error {
	if len(os.Args) != 2 {
		return errors.New("a keeper is started by this program alone")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &k.plan); err != nil {
		return err
	}
	if !k.plan.Processes {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("becoming the parent of processes that have none: %w", err)
		}
	}
	dieFirst()
	if err := k.plan.confine(); err != nil || k.plan.Path == "" {
		return err
	}
	// Nobody of the command may look into the keeper, which has rights that the command has not.
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if k.command, err = k.plan.start(); err != nil {
		return &os.PathError{Op: "fork/exec", Path: k.plan.Path, Err: err}
	}
	return letGoOfInput()
}

// dieFirst has the system choose the command, not this program, when memory runs out. The keeper, which
// it holds for as well, is the least of all that it may choose from.
func dieFirst() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // if it may not, the system chooses by size
}

// start starts the command, in a process group of its own.
func (p *plan) start() (pid int, err error) {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.Group {
		a.UseCgroupFD, a.CgroupFD = true, groupFile
	}
	return syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{Dir: p.Dir, Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: a})
}

// letGoOfInput leaves the command's input and output to the command alone, so that they end with it.
func letGoOfInput() error {
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer nothing.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(nothing.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// await returns when no process is left. Those that the command leaves have a moment, or as long as
// the program allows if it has asked them to end.
func (k *keeper) await() {
	var late <-chan time.Time
	for k.reap() {
		if k.ended && late == nil {
			late = time.After(settle)
		}
		select {
		case <-k.changed:
		case <-k.asked:
			late = make(chan time.Time) // the program decides
			signalAll(k.plan.Processes, syscall.SIGTERM)
		case <-k.told:
			k.killing = true
		case <-late:
			k.late, k.killing = true, true
		}
		if k.killing {
			signalAll(k.plan.Processes, syscall.SIGKILL) // again after each end, for those that came since
		}
	}
}

// reap takes note of processes that have ended, and reports whether there are others.
func (k *keeper) reap() bool {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == k.command && !k.ended:
			k.ended, k.status = true, status
		case k.killing:
			k.killed++
		}
	}
}

// signalAll sends a signal to all processes below this one: all others of a namespace of its own.
func signalAll(namespace bool, s syscall.Signal) {
	if namespace {
		_ = syscall.Kill(-1, s) // there may be none
		return
	}
	for pid := range below(os.Getpid()) {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}
