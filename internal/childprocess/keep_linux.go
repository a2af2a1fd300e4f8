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

// keeperName is the name of a keeper's process. A program with this name always acts as a keeper.
const keeperName = "coalmine-keeper"

// endAll is the signal by which a keeper ends all processes at once.
const endAll = syscall.SIGUSR1

// Files of a keeper, after those of the command.
const (
	reportFile = 3
	groupFile  = 4
)

// plan is a keeper's task.
type plan struct {
	// Path is the program, with its arguments; with "" the keeper only tries the restrictions.
	Path string
	Args []string
	Dir  string
	isolation
	// Hide lists files and directories that appear empty if Files is set.
	Hide []string
	// ReadOnly makes files read-only except below the directories of Write; those of Read are also made
	// available.
	ReadOnly    bool
	Write, Read []string
	// Shared limits the bytes of files in shared memory; 0 for the system's limit.
	Shared int64
	// Most is the limit on processes at a time, if the system can enforce it.
	Most int
	// Group reports whether to start the command in a control group.
	Group bool
}

// report is a keeper's message: first that the command has started, or an error, then its end.
type report struct {
	Error   string `json:",omitempty"`
	Process int    `json:",omitempty"`
	Status  uint32 `json:",omitempty"` // a syscall.WaitStatus
	Left    int    `json:",omitempty"` // processes killed after it
}

// This is not a command of the program, because tests, which have no commands, also run it.
func init() {
	if os.Args[0] == keeperName {
		keep()
		os.Exit(0)
	}
}

func keep() {
	runtime.LockOSThread() // one thread drops its rights and starts the command
	keepFilesFromCommand()
	reports := json.NewEncoder(os.NewFile(reportFile, "reports"))
	k := &keeper{asked: signals(syscall.SIGTERM), forced: signals(endAll), changed: signals(syscall.SIGCHLD)}
	if err := k.start(); err != nil {
		_ = reports.Encode(report{Error: err.Error()}) // if it fails, no reader is left
		return
	}
	_ = reports.Encode(report{Process: k.command})
	if k.command != 0 {
		k.await()
		_ = reports.Encode(report{Status: uint32(k.status), Left: k.left()})
	}
}

// keepFilesFromCommand leaves the command only its input and its two outputs: neither the keeper's own
// files nor those that this program inherited from its parent.
func keepFilesFromCommand() {
	for fd := reportFile; fd <= groupFile; fd++ {
		syscall.CloseOnExec(fd)
	}
	open, _ := os.ReadDir("/proc/self/fd") // if it fails, only the files of this program are known
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd >= reportFile {
			syscall.CloseOnExec(fd)
		}
	}
}

func signals(s os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 1) // a second pending signal of a kind adds nothing
	signal.Notify(c, s)
	return c
}

// keeper looks after the processes of one command.
type keeper struct {
	plan    plan
	command int // its first process
	asked   <-chan os.Signal
	forced  <-chan os.Signal
	changed <-chan os.Signal

	status  syscall.WaitStatus
	ended   bool // whether the first process has ended
	late    bool // whether others had to be killed after it
	killing bool
	killed  int // processes that have ended since late
}

// left returns the number of processes that the command left behind.
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
	// Processes of the command must not inspect the keeper, which has rights that they lack.
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if k.command, err = k.plan.start(); err != nil {
		return &os.PathError{Op: "fork/exec", Path: k.plan.Path, Err: err}
	}
	return letGoOfInput()
}

// dieFirst makes the system kill the command rather than this program when memory runs out. The keeper
// is subject to it too, but is the smallest candidate.
func dieFirst() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // if it fails, the system chooses by size
}

// start starts the command in its own process group.
func (p *plan) start() (pid int, err error) {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.Group {
		a.UseCgroupFD, a.CgroupFD = true, groupFile
	}
	return syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{Dir: p.Dir, Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: a})
}

// letGoOfInput closes the keeper's copies of the command's input and output, so that they end with the command.
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

// await returns when no process remains. Processes that the command leaves have the time settle to end;
// after a request to end, the program decides.
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
		case <-k.forced:
			k.killing = true
		case <-late:
			k.late, k.killing = true, true
		}
		if k.killing {
			signalAll(k.plan.Processes, syscall.SIGKILL) // again after each end, for processes started since
		}
	}
}

// reap records processes that have ended, and reports whether others remain.
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

// signalAll sends a signal to all processes below this one: with namespace set, all others of the namespace.
func signalAll(namespace bool, s syscall.Signal) {
	if namespace {
		_ = syscall.Kill(-1, s) // there may be no others
		return
	}
	for pid := range below(os.Getpid()) {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}
