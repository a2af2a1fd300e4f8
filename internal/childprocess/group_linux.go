package childprocess

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// leadGroup has a command lead a group of its own, and end with this program.
func leadGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// canIsolate reports whether this process may give others a network of their own, with nothing on
// it: a user namespace is what it takes, which some systems keep from their users.
var canIsolate = sync.OnceValue(func() bool {
	try := exec.Command("true")
	isolate(try)
	return try.Run() == nil
})

func isolate(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
	c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
}

func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // all may have ended

func terminateGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) } // likewise

func killProcess(pid int) { signalProcess(pid, syscall.SIGKILL) }

func terminateProcess(pid int) { signalProcess(pid, syscall.SIGTERM) }

func signalProcess(pid int, s syscall.Signal) {
	if pid > 0 { // 0 would be our own group
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// marked are the processes that have the mark in the environment they were started with.
// Those of other users cannot be looked at, and are none of ours.
func marked(mark string) []int {
	var pids []int
	for _, path := range processFiles("environ") {
		environment, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			if string(variable) == mark {
				pids = append(pids, pidOf(path))
			}
		}
	}
	return pids
}

// outside are those of some processes that are not of a command's group.
func outside(c *exec.Cmd, pids []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool {
		group, err := syscall.Getpgid(pid)
		return err != nil || group == c.Process.Pid
	})
}

// anyOf reports whether a process with the mark lives.
func anyOf(_ *exec.Cmd, mark string) bool { return len(marked(mark)) > 0 }

// resident is the memory of a command's group, and of what has left it with its mark, in bytes.
func resident(c *exec.Cmd, mark string) int64 {
	var pages int64
	for _, path := range processFiles("stat") {
		group, resident := statOf(path)
		if group == c.Process.Pid {
			pages += resident
		}
	}
	for _, pid := range outside(c, marked(mark)) {
		_, resident := statOf(fmt.Sprintf("/proc/%d/stat", pid))
		pages += resident
	}
	return pages * int64(os.Getpagesize())
}

// statOf is the group of a process and how many pages it has resident (proc_pid_stat(5)); zeros of
// one that has ended. What stands before the last bracket is the command's name, which may hold
// anything.
func statOf(path string) (group int, pages int64) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const processGroup, resident = 5 - 3, 24 - 3
	if len(fields) <= resident {
		return 0, 0
	}
	group, _ = strconv.Atoi(string(fields[processGroup])) // the kernel writes numbers
	pages, _ = strconv.ParseInt(string(fields[resident]), 10, 64)
	return group, pages
}

func processFiles(name string) []string {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/[0-9]*/%s", name)) // the pattern is right
	return paths
}

func pidOf(path string) int {
	pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // names of processes are numbers
	return pid
}
