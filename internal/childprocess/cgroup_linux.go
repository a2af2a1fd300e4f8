package childprocess

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cgroup is a control group for the processes of one command. The methods of a nil cgroup do nothing.
type cgroup struct {
	path      string
	directory *os.File
	memory    int64 // limit in bytes; 0 for no limit
}

// Names of control groups: groupPrefix begins those of commands; ownGroup holds this program, because a
// group that delegates memory to others may not have processes itself.
const (
	groupPrefix = "coalmine-command-"
	ownGroup    = "coalmine-worker"
)

// newGroup makes a group that limits the number of processes and their total memory, 0 for no limit; nil if
// the system does not permit it.
func newGroup(memory int64, processes int) *cgroup {
	parent := groupParent()
	if parent == "" {
		return nil
	}
	g := &cgroup{path: filepath.Join(parent, fmt.Sprintf("%s%d-%s-%s", groupPrefix, os.Getpid(), startOf(os.Getpid()), rand.Text())), memory: memory}
	if os.Mkdir(g.path, 0o755) != nil {
		return nil
	}
	if g.bound(processes) != nil {
		g.remove()
		return nil
	}
	return g
}

func (g *cgroup) bound(processes int) (err error) {
	if err := setGroup(g.path, "pids.max", strconv.Itoa(processes)); err != nil {
		return err
	}
	if g.memory > 0 {
		_ = setGroup(g.path, "memory.swap.max", "0") // a kernel without swap has no such file
		_ = setGroup(g.path, "memory.oom.group", "1")
		if err := setGroup(g.path, "memory.max", strconv.FormatInt(g.memory, 10)); err != nil {
			return err
		}
	}
	g.directory, err = os.Open(g.path)
	return err
}

// files returns the files that a keeper needs to start a command in the group.
func (g *cgroup) files() []*os.File {
	if g == nil {
		return nil
	}
	return []*os.File{g.directory}
}

// outgrown reports whether processes were killed after the group reached its memory limit.
func (g *cgroup) outgrown() bool {
	if g == nil || g.memory == 0 {
		return false
	}
	return g.event("oom") > 0 && g.event("oom_kill") > 0
}

// killedForMemory reports whether the system killed processes because the group or one of its ancestors ran
// out of memory.
func (g *cgroup) killedForMemory() bool { return g != nil && g.event("oom_kill") > 0 }

// event returns a counter of the group's memory events.
func (g *cgroup) event(name string) int64 { return groupFigures(g.path, "memory.events")[name] }

func (g *cgroup) kill() {
	if g != nil {
		_ = setGroup(g.path, "cgroup.kill", "1") // Linux 5.14; the keeper kills them too
	}
}

// remove removes the group once its last process has gone, for which there is no event. The next program
// that runs commands here removes a group that remains.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	if g.directory != nil {
		g.directory.Close()
	}
	g.kill()
	for deadline := time.Now().Add(settle); os.Remove(g.path) != nil && time.Now().Before(deadline); {
		time.Sleep(look)
	}
}

// groupParent is the group in which groups of commands are made, "" if none permits it. It requires version
// 2 and a group delegated to this program, such as by Delegate=yes of systemd.
var groupParent = sync.OnceValue(func() string {
	group := ownGroupPath()
	if group == "" {
		return ""
	}
	sweepGroups(group)
	if sharesOut(group) {
		return group
	}
	leaf := filepath.Join(group, ownGroup)
	if os.Mkdir(leaf, 0o755) != nil {
		return ""
	}
	if move(leaf) == nil && sharesOut(group) {
		return group
	}
	_ = move(group) // other processes are in it: undo the move
	_ = os.Remove(leaf)
	return ""
})

// ownGroupPath returns the folder of this program's group, or of its parent if the program has moved
// before; "" with version 1.
func ownGroupPath() string {
	data, err := os.ReadFile(ownGroups)
	if _, missing := os.Stat(filepath.Join(groupRoot, "cgroup.controllers")); err != nil || missing != nil {
		return ""
	}
	return strings.TrimSuffix(filepath.Join(groupRoot, unifiedGroup(string(data))), "/"+ownGroup)
}

// sharesOut lets a group limit the memory and processes of its children, and reports whether it does.
func sharesOut(group string) bool {
	_ = setGroup(group, "cgroup.subtree_control", "+memory +pids") // the file's content decides, not the error
	data, err := os.ReadFile(filepath.Join(group, "cgroup.subtree_control"))
	controllers := strings.Fields(string(data))
	return err == nil && slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids") && writable(group)
}

// writable reports whether groups can be made in group.
func writable(group string) bool {
	try := filepath.Join(group, groupPrefix+rand.Text())
	return os.Mkdir(try, 0o755) == nil && os.Remove(try) == nil
}

func move(group string) error { return setGroup(group, "cgroup.procs", strconv.Itoa(os.Getpid())) }

func setGroup(group, file, value string) error {
	return os.WriteFile(filepath.Join(group, file), []byte(value), 0o644)
}

// sweepGroups removes the groups of programs that were killed.
func sweepGroups(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*-*-*")) // the pattern is valid
	for _, path := range paths {
		parts := strings.SplitN(strings.TrimPrefix(filepath.Base(path), groupPrefix), "-", 3) // the pattern ensures three parts
		if pid, _ := strconv.Atoi(parts[0]); startOf(pid) != parts[1] {
			(&cgroup{path: path}).remove()
		}
	}
}

// startOf returns the start time of a process, which distinguishes it from a later one with its id; "" if there is none.
func startOf(pid int) string {
	const started = 22 - 3
	fields := statOf(pid)
	if len(fields) <= started {
		return ""
	}
	return fields[started]
}
