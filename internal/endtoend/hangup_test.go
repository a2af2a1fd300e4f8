//go:build unix

package endtoend_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/must"
)

// serving starts a server of the workspace's home by a line for the shell that ends in exec.
func (w workspace) serving(shell string) *process {
	w.t.Helper()
	must.Do(w.t, os.MkdirAll(w.home(), 0o700))
	// A program that was started under nohup ignores hangups, and so would those that it starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	p := start(w.t, command{name: "coalmine serve", args: []string{"sh", "-c", shell + ` "$0" serve`, binary}, dir: w.dir})
	p.await("it serves", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	return p
}

// A terminal that is closed ends a command as SIGTERM does: the home is given up.
func TestAHangupEndsACommandAsSIGTERMDoes(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		w := newWorkspace(t)
		p := w.serving("exec")
		p.signal(s)
		if code := p.wait(); code != 0 {
			t.Errorf("after %v: exit status %d\n%s", s, code, p.stderr.String())
		}
		if _, err := os.Stat(filepath.Join(w.home(), "owner.json")); !os.IsNotExist(err) {
			t.Errorf("after %v the home still has an owner: %v", s, err)
		}
	}
}

func TestACommandUnderNohupOutlivesAHangup(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	p := w.serving("trap '' HUP; exec")
	p.signal(syscall.SIGHUP)
	printed(t, w.coalmine("status")) // the server answers
	if p.hasEnded() {
		t.Fatalf("it has ended:\n%s", p.stderr.String())
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("after SIGTERM: exit status %d", code)
	}
}
