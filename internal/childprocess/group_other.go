//go:build !unix

package childprocess

import "os/exec"

func leadGroup(*exec.Cmd) {}

func canIsolate() bool { return false }

func isolate(*exec.Cmd) {}

func killGroup(c *exec.Cmd) { _ = c.Process.Kill() } // it may have ended

func terminateGroup(c *exec.Cmd) { _ = c.Process.Kill() } // nothing gentler is there

func killProcess(int) {}

func terminateProcess(int) {}

func marked(string) []int { return nil }

func outside(*exec.Cmd, []int) []int { return nil }

// anyOf cannot tell.
func anyOf(*exec.Cmd, string) bool { return false }

func resident(*exec.Cmd, string) int64 { return 0 }
