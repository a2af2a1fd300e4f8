package timing

import (
	"os/exec"
	"runtime"
	"testing"
)

// A process that waits takes no processor time, one that counts does.
func TestProcessesCountByTheirProcessorTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the processor time of children")
	}
	idle, err := Children(exec.Command("sleep", "0.3").Run)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := Children(exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run)
	if err != nil || idle > 0.2 || busy < 2*idle {
		t.Errorf("a process that sleeps takes %g s, one that counts %g s, %v", idle, busy, err)
	}
}
