package childprocess

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"coalmine/internal/secrets"
)

// Enforced returns the limits that the system enforces here. The first call determines them with some
// processes that end at once.
func Enforced() Enforcement {
	i := possible()
	return Enforcement{Network: i.Network, Processes: i.Processes, Files: i.Files, Memory: groupParent() != ""}
}

// possible lists the restrictions that this process can impose. A command is not started if a possible
// restriction that it asks for fails.
var possible = sync.OnceValue(func() isolation {
	for _, i := range []isolation{{true, true, true}, {true, true, false}, {true, false, true}, {true, false, false}} {
		if i.works() {
			return i
		}
	}
	return isolation{}
})

// works reports whether a keeper can impose the restrictions, without starting a command.
func (i isolation) works() bool {
	runtime.LockOSThread() // the keeper ends with the thread that started it
	defer runtime.UnlockOSThread()
	h := &hold{run: exec.Command(ownProgram), plan: plan{isolation: i, ReadOnly: i.Files, Write: []string{os.TempDir()}, Most: maxProcesses}}
	defer h.close()
	if h.disguise() != nil || h.run.Start() != nil || h.begun() != nil {
		return false
	}
	return h.run.Wait() == nil
}

// plan returns the isolation of a command, as far as the system permits it. From a trusted command
// only the secrets of this process are hidden.
func (c *Command) plan(possible isolation) plan {
	if c.possible != nil {
		possible = *c.possible
	}
	p := plan{isolation: possible, Hide: slices.DeleteFunc(secrets.NotedFiles(), isMissing), Most: cmp.Or(c.processes, maxProcesses)}
	if c.Network && c.Write == nil {
		p.isolation = isolation{Files: p.Files && len(p.Hide) > 0}
		return p
	}
	p.Write, p.Read, p.Shared = c.Write, c.Read, c.Memory
	p.Hide = append(p.Hide, credentials()...)
	p.Network = p.Network && !c.Network
	p.ReadOnly = p.Files && c.Write != nil && !slices.Contains(c.Write, "/")
	return p
}

// confine makes a command's environment, and gives up the rights to change it.
func (p *plan) confine() error {
	if p.namespaces() == 0 {
		return nil
	}
	if p.Network {
		raiseLoopback()
	}
	if p.Files || p.Processes {
		// Later mounts of the machine appear here, but not the reverse.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("mounts of its own: %w", err)
		}
	}
	if p.Files {
		if err := p.seal(); err != nil {
			return err
		}
	}
	if p.Processes {
		if err := p.ownProcesses(); err != nil {
			return err
		}
	}
	if p.Files || p.Processes {
		if err := protectMachine(); err != nil {
			return err
		}
	}
	return p.giveUp()
}

// raiseLoopback lets processes of one command communicate over 127.0.0.1. If it fails, they have no
// network.
func raiseLoopback() {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(s) }() // it was only used for a request
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	_ = unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}

// sharedMemory is the directory of files in memory.
const sharedMemory = "/dev/shm"

// seal makes files read-only as planned, and hides those of Hide, also in directories of Read. A
// directory of Write is never hidden.
func (p *plan) seal() error {
	if p.ReadOnly {
		if err := p.restrict(); err != nil {
			return err
		}
	}
	for _, path := range p.Hide {
		if slices.Contains(p.Write, path) {
			continue
		}
		if err := hide(path); err != nil {
			return err
		}
	}
	return nil
}

// restrict makes all files read-only except below the directories of Write.
func (p *plan) restrict() error {
	trees, err := p.hold()
	if err != nil {
		return err
	}
	if err := p.makeReadOnly(); err != nil {
		return err
	}
	for _, t := range trees {
		if err := os.MkdirAll(t.path, 0o755); err != nil { // it may lie in a covered directory
			return err
		}
		if err := t.putBack(); err != nil {
			return err
		}
	}
	return nil
}

// makeReadOnly makes all files read-only. The command has its own shared memory, which ends with it.
func (p *plan) makeReadOnly() error {
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("making files read-only: %w", err)
	}
	if isDirectory(sharedMemory) {
		return cover(sharedMemory, "mode=1777,size="+p.shared(), 0)
	}
	return nil
}

func (p *plan) shared() string {
	if p.Shared == 0 {
		return "50%"
	}
	return strconv.FormatInt(p.Shared, 10)
}

// tree is an open directory with all its files, which can be mounted again at its path.
type tree struct {
	path string
	fd   int
}

// hold opens the directories of Read, then processFiles, then the directories of Write.
func (p *plan) hold() (trees []tree, err error) {
	for i, path := range slices.Concat(p.Read, []string{processFiles}, p.Write) {
		t, err := take(path, i < len(p.Read))
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
	}
	return trees, nil
}

// take opens a directory or a file as a tree.
func take(path string, readOnly bool) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == nil && readOnly {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		return tree{}, fmt.Errorf("handing over %s: %w", path, err)
	}
	return tree{path, fd}, nil
}

// putBack mounts the tree at its original path.
func (t tree) putBack() error {
	err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
	if err == nil {
		err = unix.Close(t.fd)
	}
	if err != nil {
		return fmt.Errorf("handing over %s: %w", t.path, err)
	}
	return nil
}

// cover mounts an empty folder in memory over a folder.
func cover(path, options string, flags uintptr) error {
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|flags, options); err != nil {
		return fmt.Errorf("covering %s: %w", path, err)
	}
	return nil
}

// hide makes a folder or a file appear empty.
func hide(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil // missing, or not visible to this user
	case info.IsDir():
		return cover(path, "mode=755,size=4k", unix.MS_RDONLY)
	}
	if err := unix.Mount(os.DevNull, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hiding %s: %w", path, err)
	}
	return nil
}

// isMissing reports whether a path does not exist or is not visible to this user.
func isMissing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// credentials returns the common paths of programs' credentials.
func credentials() (paths []string) {
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range []string{".aws", ".azure", ".config/gcloud", ".docker", ".git-credentials", ".kube", ".netrc", ".ssh"} {
			paths = append(paths, filepath.Join(home, name))
		}
	}
	for _, variable := range []string{"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG"} {
		if path := os.Getenv(variable); filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return append(paths, "/run/secrets", "/var/run/secrets")
}

// ownProcesses mounts a /proc with only the processes of the namespace, and limits their number.
func (p *plan) ownProcesses() error {
	if err := unix.Mount("proc", processFiles, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("a /proc of its own: %w", err)
	}
	p.boundProcesses()
	return nil
}

// processFiles is the directory of files about processes. Some programs write to it, such as GPU
// libraries.
const processFiles = "/proc"

// protectMachine makes the machine's settings in processFiles read-only: the kernel lets root of any
// namespace write them.
func protectMachine() error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"acpi", "bus", "fs", "irq", "scsi", "sys", "sysrq-trigger"} {
		path := filepath.Join(processFiles, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		t, err := take(path, true)
		if err == nil {
			err = t.putBack()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boundProcesses limits the processes of the namespace. Before Linux 6.14 the setting applies to the
// whole machine, and is left unchanged.
func (p *plan) boundProcesses() {
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); n == 2 && (major > 6 || major == 6 && minor >= 14) {
		_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(p.Most)), 0) // if it fails, more are allowed
	}
}

// giveUp gives up all capabilities permanently, and all ways to regain them. It applies to this thread
// and its children. In a user namespace the limit on processes counts only those of the namespace, and
// does not apply to root.
func (p *plan) giveUp() error {
	bound := &unix.Rlimit{}
	if unix.Getrlimit(unix.RLIMIT_NPROC, bound) == nil {
		bound.Max = min(bound.Max, uint64(p.Most))
		bound.Cur = min(bound.Cur, bound.Max)
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, bound) // lowering is allowed
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // an older kernel lacks some
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	for _, err := range []error{
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Capset(header, &none[0]),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
	} {
		if err != nil {
			return fmt.Errorf("giving up capabilities: %w", err)
		}
	}
	return nil
}
