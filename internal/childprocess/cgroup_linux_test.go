package childprocess

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// grouped is the group in which groups for commands can be made.
func grouped(t *testing.T) string {
	t.Helper()
	if groupParent() == "" {
		t.Skip("no control group of version 2 was handed to this program: start it in one that it has for itself")
	}
	return groupParent()
}

// grows takes four times its limit of memory in less time than there is between two looks.
const grows = `import os
print(open("/proc/self/cgroup").read().strip().split("::")[-1].split("/")[-1], flush=True)
for _ in range(4):
    os.fork()
held = bytearray(16 << 20)
print("has it", flush=True)
`

// Programs that grow without bound, in many processes and faster than any poll, are
// stopped.
func TestCgroupBoundsMemory(t *testing.T) {
	t.Parallel()
	parent := grouped(t)
	python(t)
	for _, i := range levels() {
		c := confined(t.TempDir(), i)
		c.Args, c.Memory = []string{"python3", "-c", grows}, 64<<20
		p := must.Get(c.Start())(t)
		said, err := io.ReadAll(p.Output)
		if err != nil || !strings.HasPrefix(string(said), groupPrefix) || strings.Count(string(said), "has it") > 4 {
			t.Errorf("%+v: %q, %v", i, said, err)
		}
		const want = "it was killed, since its processes wanted more than the 64 MiB of memory that they may have"
		if err := p.Close(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", i, err, want)
		}
		name, _, _ := strings.Cut(string(said), "\n")
		if _, err := os.Stat(filepath.Join(parent, name)); err == nil {
			t.Errorf("%+v: the group %s is still there", i, name)
		}
	}
}

// A command that is not allowed to write files cannot leave its group either.
func TestCommandCannotLeaveCgroup(t *testing.T) {
	t.Parallel()
	parent := grouped(t)
	all := isolation{true, true, true}
	if !all.works() {
		t.Skip("files are not kept from commands here")
	}
	p := shell(t, confined(t.TempDir(), all), fmt.Sprintf("echo 0 > %s/cgroup.procs; cat /proc/self/cgroup", filepath.Join(parent, ownGroup)))
	said, err := io.ReadAll(p.Output)
	if err != nil || !strings.Contains(string(said), groupPrefix) {
		t.Errorf("%q, %v", said, err)
	}
}

// The groups of a killed program are removed, those of a live one stay.
func TestSweepRemovesCgroupsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	parent := grouped(t)
	left := filepath.Join(parent, groupPrefix+"4194303-1-LEFT")
	must.Do(t, os.Mkdir(left, 0o755))
	mine := newGroup(0, maxProcesses)
	if mine == nil {
		t.Fatal("no group can be made")
	}
	defer mine.remove()
	sweepGroups(parent)
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
	if _, err := os.Stat(mine.path); err != nil {
		t.Error(err)
	}
}
