package childprocess

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
)

// parent is the argument by which the test's program runs a command for ever, confined as a name of
// levels says, and prints its output.
const parent = "be-a-parent"

func TestMain(m *testing.M) {
	if len(os.Args) < 4 || os.Args[1] != parent {
		os.Exit(m.Run())
	}
	c := confined(os.TempDir(), levels()[os.Args[2]])
	c.Args = []string{"sh", "-c", os.Args[3]}
	p, err := c.Start()
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(os.Stdout, p.Output) // until the parent is killed
}

// levels are the ways to confine a command that this machine has.
func levels() map[string]isolation {
	found := map[string]isolation{"nothing": {}}
	for name, i := range map[string]isolation{"all": {true, true, true}, "processes": {true, true, false}, "files": {true, false, true}, "network": {true, false, false}} {
		if i.works() {
			found[name] = i
		}
	}
	return found
}

// confined is a command in a directory.
func confined(dir string, i isolation) Command {
	return Command{Dir: dir, Write: []string{dir}, possible: &i}
}

// atEveryLevel runs a test for each way to confine a command.
func atEveryLevel(t *testing.T, test func(t *testing.T, i isolation)) {
	for name, i := range levels() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, i)
		})
	}
}

// saysDone runs a command that says "done" and nothing else.
func saysDone(t *testing.T, c Command) *Process {
	t.Helper()
	p := must.Get(c.Start())(t)
	said, err := io.ReadAll(p.Output)
	if string(said) != "done\n" || err != nil {
		t.Errorf("%q, %v; standard error says %q", said, err, p.LastLines())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	return p
}

// with are the processes that have some text in their command line, keepers excepted.
func with(text string) (found []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(text)) && !bytes.HasPrefix(line, []byte(keeperName)) && !bytes.Contains(line, []byte(parent)) {
			found = append(found, path)
		}
	}
	return found
}

// escapes are ways of a process to leave its parent. %s tells it from others.
var escapes = map[string]string{
	"child":             "sleep %s & echo ready; wait",
	"session":           "setsid sleep %s & echo ready; wait",
	"other environment": "env -i setsid sleep %s & echo ready; wait",
	"orphan":            "(env -i setsid sh -c 'sleep %s & sleep %[1]s & exit 0' &) ; echo ready; exec sleep 1000",
	"deaf":              "env -i setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep %s; done' & echo ready; wait",
}

// seconds are that long, and tell a process from all others.
func seconds() string { return fmt.Sprintf("1000.%d", time.Now().UnixNano()) + digits() }

func digits() (d string) {
	for _, c := range rand.Text()[:8] {
		d += string('0' + c%10)
	}
	return d
}

func TestKillReachesEscapedProcesses(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		for name, line := range escapes {
			mine := seconds()
			p := shell(t, confined(t.TempDir(), i), fmt.Sprintf(line, mine))
			if said, err := bufio.NewReader(p.Output).ReadString('\n'); said != "ready\n" || err != nil {
				t.Fatalf("%s: %q, %v", name, said, err)
			}
			must.Await(t, name+" to start", func() bool { return len(with(mine)) > 0 })
			p.Kill(fmt.Errorf("it was no longer wanted"))
			<-p.Done()
			if left := with(mine); len(left) > 0 {
				t.Errorf("%s: %v live", name, left)
			}
		}
	})
}

// Those that a command leaves when it ends by itself have a moment, and are counted.
func TestLeftoverProcessesAreKilledAndCounted(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		mine := seconds()
		p := shell(t, confined(t.TempDir(), i), fmt.Sprintf("env -i setsid sleep %s & (env -i setsid sleep %[1]s &) ; true & exit 0", mine))
		if err := p.Close(); err == nil || err.Error() != "it ended and left 2 processes behind, which were killed" {
			t.Errorf("got %v", err)
		}
		if left := with(mine); len(left) > 0 {
			t.Errorf("%v live", left)
		}
	})
}

// The children of a killed program's commands end with it.
func TestCommandsEndWithKilledParent(t *testing.T) {
	t.Parallel()
	for name := range levels() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for escape, line := range escapes {
				mine := seconds()
				run := exec.Command(os.Args[0], parent, name, fmt.Sprintf(line, mine))
				output, err := run.StdoutPipe()
				if err == nil {
					err = run.Start()
				}
				must.Do(t, err)
				if said, err := bufio.NewReader(output).ReadString('\n'); said != "ready\n" || err != nil {
					t.Fatalf("%s: %q, %v", escape, said, err)
				}
				must.Await(t, escape+" to start", func() bool { return len(with(mine)) > 0 })
				must.Do(t, run.Process.Kill())
				_ = run.Wait() // it was killed
				must.Await(t, escape+" to end", func() bool { return len(with(mine)) == 0 })
			}
		})
	}
}

func TestOfflineCommandHasOnlyLoopback(t *testing.T) {
	t.Parallel()
	p := shell(t, Command{}, "cat /proc/self/net/dev; cat /sys/class/net/lo/operstate 2>/dev/null")
	if !p.hold.plan.Network {
		t.Skip("this system lets nobody make a network namespace")
	}
	listed, err := io.ReadAll(p.Output)
	if n := strings.Count(string(listed), ":"); err != nil || n != 1 || !strings.Contains(string(listed), "lo:") {
		t.Errorf("%q, %v", listed, err)
	}
}

// A command may write to its directory and to shared memory, and nowhere else, by any
// means.
func TestCommandWritesOnlyToItsDirectory(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		if !i.Files {
			t.Skip("files are not kept from commands at this level")
		}
		beside, own := t.TempDir(), t.TempDir()
		const line = `umask 0
echo x > "$0/file" && echo "wrote to $0"
mount -o remount,rw / && echo "mounted /"
umount "$0" 2>/dev/null && echo "unmounted $0"
unshare -Urm sh -c 'mount -o remount,bind,rw / ; echo x > "$0/file"' "$0" && echo "wrote in another namespace"
mv "$1" "$1.gone" && echo "moved its directory"
echo x > own && echo x > "$1/absolute" && echo x > /dev/shm/file && echo x > /dev/null && echo done`
		c := confined(own, i)
		c.Args = []string{"sh", "-c", line, beside, own}
		p := saysDone(t, c)
		if lines := p.LastLines(); !slices.Contains(lines, readOnlyHint) {
			t.Errorf("its last lines are %q; expected a word on what to do", lines)
		}
		if files, err := os.ReadDir(beside); err != nil || len(files) > 0 {
			t.Errorf("%v, %v", files, err)
		}
		if _, err := os.ReadFile(own + "/absolute"); err != nil {
			t.Error(err)
		}
	})
}

// Directories in shared memory that are handed over are there, and nothing else is.
func TestSharedMemoryIsPrivate(t *testing.T) {
	t.Parallel()
	all := isolation{true, true, true}
	if !all.works() || !isDirectory(sharedMemory) {
		t.Skip("this system does not let commands have shared memory of their own")
	}
	handed, err := os.MkdirTemp(sharedMemory, "coalmine-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(handed)
	for _, name := range []string{"own", "other"} {
		must.Do(t, os.Mkdir(filepath.Join(handed, name), 0o700))
	}
	own := filepath.Join(handed, "own")
	c := confined(own, all)
	c.Read = []string{handed}
	p := shell(t, c, fmt.Sprintf("ls /dev/shm %s; echo x > file; echo x > %[1]s/other/file", handed))
	said, err := io.ReadAll(p.Output)
	if want := fmt.Sprintf("/dev/shm:\n%s\n\n%s:\nother\nown\n", filepath.Base(handed), handed); string(said) != want || err != nil {
		t.Errorf("%q, %v; want %q", said, err, want)
	}
	if files, _ := filepath.Glob(handed + "/*/file"); !slices.Equal(files, []string{own + "/file"}) {
		t.Errorf("written were %v", files)
	}
}

// Every process of a command has its number, sees its own alone, and is no root that could do more.
func TestCommandSeesOnlyItsProcesses(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		if !i.Processes {
			t.Skip("processes are not kept from each other at this level")
		}
		p := shell(t, confined(t.TempDir(), i), `[ "$(readlink /proc/self)" -lt 100 ] && ls -d /proc/[0-9]* | wc -l; grep -c "CapEff:.*[1-9a-f]" /proc/self/status; cat /proc/1/environ /proc/1/fd/3 | wc -c
echo 1 > /proc/sys/kernel/panic; echo 0 > /proc/self/oom_score_adj && echo own; cat /proc/sys/kernel/pid_max`)
		said, err := io.ReadAll(p.Output)
		fields := strings.Fields(string(said))
		if err != nil || len(fields) < 4 || fields[0] > "5" || fields[1] != "0" || fields[2] != "0" || fields[3] != "own" {
			t.Errorf("%q, %v; standard error says %q", said, err, p.LastLines())
		}
	})
}

// A keeper that was stopped by its command ends nevertheless.
func TestCommandThatStopsKeeperIsKilled(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		p := shell(t, confined(t.TempDir(), i), "read line; kill -STOP $PPID; echo ready; exec sleep 1000")
		fmt.Fprintln(p.Input, "go on")
		if said, err := bufio.NewReader(p.Output).ReadString('\n'); said != "ready\n" || err != nil {
			t.Fatalf("%q, %v", said, err)
		}
		p.Kill(fmt.Errorf("it was no longer wanted"))
		<-p.Done()
	})
}

// readsSecrets is a command line that prints the secrets of a home and of another directory, by all ways
// that a program may try, and writes to that directory.
const readsSecrets = `cat "$0/.netrc" "$0/key.json" "$0/link" "$1/token"; ls -A "$0/.ssh"; cat "$0/.ssh/id"
mount -t tmpfs none "$1"; umount "$1/token" "$0/.netrc" "$0/.ssh"; cat "$0/.netrc" "$1/token" "$0/.ssh/id"
unshare -Urm sh -c 'umount "$1/token"; cat "$1/token"' "$0" "$1"
cat /proc/$PPID/root/"$1/token" /proc/"$2"/root/"$1/token" /proc/"$2"/environ
echo x > "$1/file" && echo done`

// secretHome has secrets in usual places, and a directory with a file that this process knows to hold one.
// The environment is shared by tests.
func secretHome(t *testing.T) (home, own string) {
	home, own = t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(home, "key.json"))
	must.Do(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	token := filepath.Join(own, "token")
	for _, name := range []string{filepath.Join(home, ".ssh/id"), filepath.Join(home, ".netrc"), filepath.Join(home, "key.json"), token} {
		must.Do(t, os.WriteFile(name, []byte("secret\n"), 0o600))
	}
	must.Do(t, os.Symlink(token, filepath.Join(home, "link")))
	secrets.NoteFile(token)
	return home, own
}

// Credentials in usual places and files with secrets of this process look empty, also in a directory that
// the command may write to.
func TestSecretFilesAreHidden(t *testing.T) {
	home, own := secretHome(t)
	for name, i := range levels() {
		for handed, write := range map[string]string{"its directory": own, "the home": home, "anything": "/"} {
			t.Run(name+", may write to "+handed, func(t *testing.T) {
				if !i.Files {
					t.Skip("files are not kept from commands at this level")
				}
				c := confined(t.TempDir(), i)
				c.Write = append(c.Write, own, write)
				c.Args = []string{"sh", "-c", readsSecrets, home, own, fmt.Sprint(os.Getpid())}
				saysDone(t, c)
			})
		}
	}
}

// A command that is trusted finds the credentials of its user, and no secret of this process.
func TestTrustedCommandSeesNoParentSecrets(t *testing.T) {
	home, own := secretHome(t)
	all := isolation{true, true, true}
	if !all.works() {
		t.Skip("files are not kept from commands on this system")
	}
	c := Command{Args: []string{"sh", "-c", `cat "$1/token" "$0/link"; [ "$(cat "$0/.netrc")" = secret ] && echo x > "$0/file" && echo done`, home, own}, Terms: Terms{Network: true}, possible: &all}
	saysDone(t, c)
}

// Files that this program has inherited from its parent are not passed on.
func TestCommandInheritsNoFiles(t *testing.T) {
	t.Parallel()
	atEveryLevel(t, func(t *testing.T, i isolation) {
		file := must.Get(os.Create(filepath.Join(t.TempDir(), "secret")))(t)
		defer file.Close()
		inherited, err := syscall.Dup(int(file.Fd())) // one that programs inherit
		must.Do(t, err)
		defer syscall.Close(inherited)
		c := confined(t.TempDir(), i)
		c.Args = []string{"sh", "-c", fmt.Sprintf("[ -e /proc/self/fd/%d ] && ls -l /proc/self/fd; echo done", inherited)}
		saysDone(t, c)
	})
}

// forkBomb starts processes that start processes, until one is refused.
const forkBomb = `import os, signal
try:
    while True:
        os.fork()
except OSError:
    os.write(1, b"refused\n")
    signal.pause()
`

// Processes that start others without end do not take all that the machine has, and end with the command.
func TestForkBombIsBounded(t *testing.T) {
	t.Parallel()
	python(t)
	all := isolation{true, true, true}
	if groupParent() == "" && (!all.works() || !countsProcesses()) {
		t.Skip("this system does not bound the processes of a command")
	}
	const most = 400
	c := confined(t.TempDir(), all)
	c.Args, c.processes = []string{"python3", "-c", forkBomb}, most
	p := must.Get(c.Start())(t)
	output := bufio.NewReader(p.Output)
	if said, err := output.ReadString('\n'); said != "refused\n" || err != nil {
		t.Errorf("%q, %v; standard error says %q", said, err, p.LastLines())
	}
	go func() { _, _ = io.Copy(io.Discard, output) }() // many say it
	if n := len(below(p.run.Process.Pid)); n > most || n < most/2 {
		t.Errorf("%d processes; expected at most %d, and as many as that", n, most)
	}
	p.Kill(fmt.Errorf("it was no longer wanted"))
	<-p.Done()
	if n := len(below(p.run.Process.Pid)); n > 0 {
		t.Errorf("%d processes live", n)
	}
}

// countsProcesses reports whether the bound of a namespace holds for this user.
func countsProcesses() bool {
	var s syscall.Utsname
	if os.Getuid() != 0 || syscall.Uname(&s) != nil {
		return true
	}
	var release strings.Builder
	for _, c := range s.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	var major, minor int
	n, _ := fmt.Sscanf(release.String(), "%d.%d", &major, &minor)
	return n == 2 && (major > 6 || major == 6 && minor >= 14)
}

func python(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
}
