//go:build !unix

package childprocess

import "os/exec"

func leadGroup(*exec.Cmd) {}

func killGroup(c *exec.Cmd) { _ = c.Process.Kill() } // it may have ended

func killProcess(int) {}

func marked(string) []int { return nil }

func residentGroup(int) int64 { return 0 }
