//go:build unix

package tempfiles

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// hold is the argument by which the test's program makes a directory, says which, and waits.
const hold = "hold-a-directory"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != hold {
		os.Exit(m.Run())
	}
	d, err := MakeDirectory(os.Args[2], "work-")
	if err != nil {
		panic(err)
	}
	f, err := OpenFile(os.Args[2], "coalmine-upload-")
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteString("text"); err != nil {
		panic(err)
	}
	fmt.Println(d.Path)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
}

// A process that is killed leaves its directory, which the next one removes; that of a process which
// lives stays.
func TestDirectoriesOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	home := filepath.Join(base, "coalmine-home") // of a person, who has called it so
	must.Do(t, os.MkdirAll(home, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(home, "lock"), nil, 0o600))
	lives := must.Get(MakeDirectory(base, "work-"))(t)
	defer lives.Remove()
	run := exec.Command(os.Args[0], hold, base)
	must.Get(run.StdinPipe())(t)
	output := must.Get(run.StdoutPipe())(t)
	must.Do(t, run.Start())
	line := must.Get(bufio.NewReader(output).ReadString('\n'))(t)
	gone := strings.TrimSpace(line)
	must.Do(t, os.WriteFile(filepath.Join(gone, "text"), nil, 0o600))
	must.Do(t, run.Process.Kill())
	_ = run.Wait() // it was killed
	Clean(base)
	want := []string{home, lives.Path}
	slices.Sort(want)
	if left, _ := filepath.Glob(filepath.Join(base, "*")); !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}
