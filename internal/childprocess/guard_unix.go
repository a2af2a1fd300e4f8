//go:build unix

package childprocess

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// guarding waits for the end of its input, which comes with that of this program, and kills then
// what a command has started: its group ($1), and whatever has its mark ($2), on systems that
// show the environment of processes.
const guarding = `trap '' TERM INT HUP
read -r nothing
kill -9 "-$1"
for file in $(grep -l -e "$2" /proc/[0-9]*/environ); do
	pid=${file#/proc/}
	kill -9 "${pid%/environ}"
done`

// guard is a process beside a command that outlives this program, should that be killed. The
// kernel ends the command itself in that case, on Linux, but nothing that it has started.
type guard struct {
	run  *exec.Cmd
	held *os.File // open as long as this program lives
}

// startGuard guards a command that has started. Without a shell, or where nothing more can be
// started, there is none.
func startGuard(group int, mark string) *guard {
	input, held, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer input.Close()
	g := &guard{run: exec.Command("/bin/sh", "-c", guarding, "guard", strconv.Itoa(group), mark), held: held}
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
