package childprocess

import (
	"io"
	"strings"
	"testing"
)

// /proc/net/dev lists the interfaces of the process that reads it, after two lines of headings.
func TestACommandThatIsOfflineHasNothingButALoopback(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{Offline: true}, "cat /proc/self/net/dev")
	if !p.Offline {
		t.Skip("this system lets nobody make a network namespace")
	}
	listed, err := io.ReadAll(p.Output)
	if lines := strings.Split(strings.TrimSpace(string(listed)), "\n"); err != nil || len(lines) != 3 || !strings.Contains(lines[2], "lo:") {
		t.Errorf("%q, %v", listed, err)
	}
}
