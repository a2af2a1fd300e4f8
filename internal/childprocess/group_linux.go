package childprocess

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func killProcess(pid int) {
	if pid > 0 { // 0 would be our own group
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
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

// residentGroup is the memory of the processes of a group, in bytes.
func residentGroup(group int) int64 {
	var pages int64
	for _, path := range processFiles("stat") {
		pages += residentPages(path, group)
	}
	return pages * int64(os.Getpagesize())
}

// residentPages are those of a process if it is of the group, else 0 (proc_pid_stat(5)). What
// stands before the last bracket is the command's name, which may hold anything.
func residentPages(path string, group int) int64 {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0 // it has ended
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const processGroup, resident = 5 - 3, 24 - 3
	if len(fields) <= resident || string(fields[processGroup]) != strconv.Itoa(group) {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[resident]), 10, 64) // the kernel writes numbers
	return pages
}

func processFiles(name string) []string {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/[0-9]*/%s", name)) // the pattern is right
	return paths
}

func pidOf(path string) int {
	pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // names of processes are numbers
	return pid
}
