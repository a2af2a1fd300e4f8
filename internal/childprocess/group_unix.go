//go:build unix && !linux

package childprocess

import (
	"os/exec"
	"syscall"
)

// leadGroup has a command lead a group of its own.
func leadGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func canIsolate() bool { return false }

func isolate(*exec.Cmd) {}

func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // all may have ended

func terminateGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) } // likewise

func killProcess(int) {}

func terminateProcess(int) {}

func marked(string) []int { return nil }

func outside(*exec.Cmd, []int) []int { return nil }

// anyOf reports whether a process of the group lives.
func anyOf(c *exec.Cmd, _ string) bool { return syscall.Kill(-c.Process.Pid, 0) == nil }

func resident(*exec.Cmd, string) int64 { return 0 }
