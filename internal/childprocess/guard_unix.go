//go:build unix && !linux

package childprocess

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// guarding waits for the end of its input, which comes with that of this program, and kills then
// the group of a command ($1).
const guarding = `trap '' TERM INT HUP
read -r nothing
kill -9 "-$1"`

// guard is a process beside a command that outlives this program, should that be killed.
type guard struct {
	run  *exec.Cmd
	held *os.File // open as long as this program lives
}

// startGuard guards a command that has started. Without a shell, or where nothing more can be
// started, there is none.
func startGuard(group int) *guard {
	input, held, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer input.Close()
	g := &guard{run: exec.Command("/bin/sh", "-c", guarding, "guard", strconv.Itoa(group)), held: held}
	g.run.Stdin, g.run.Env = input, []string{"PATH=/usr/bin:/bin"}
	g.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends this program's group leaves it
	if err := g.run.Start(); err != nil {
		held.Close()
		return nil
	}
	return g
}

// end ends the guard of a command of which nothing is left.
func (g *guard) end() {
	if g == nil {
		return
	}
	_ = g.run.Process.Kill()
	_ = g.run.Wait() // it was killed
	g.held.Close()
}
