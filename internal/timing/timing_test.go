package timing

import (
	"os/exec"
	"runtime"
	"testing"
)

// A process that waits takes its time; two that count at once take more than that.
func TestProcessesCountByTheLargerOfTheirTimes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the processor time of children")
	}
	idle, err := Children(exec.Command("sleep", "0.3").Run)
	if err != nil || idle < 0.3 {
		t.Errorf("a process that sleeps 0.3 s takes %g s, %v", idle, err)
	}
	before := children()
	busy, err := Children(exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run)
	if used := (children() - before).Seconds(); err != nil || used == 0 || busy < used {
		t.Errorf("a process that counts takes %g s, %g s of a processor, %v", busy, used, err)
	}
}
