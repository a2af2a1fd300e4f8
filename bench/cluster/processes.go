// These files start the processes that a benchmark measures, and read their processor time and memory.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workers"
)

// patience is the time for a process to start, or to end in good order.
const patience = 30 * time.Second

// Child is a started process.
type Child struct {
	// Output holds its standard output and error; read it after the end.
	Output *bytes.Buffer

	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when it has ended
	err   error         // valid after done
}

// StartChild starts a command.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	c := &Child{Output: new(bytes.Buffer), cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// Done returns a channel that is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stop closes the standard input of a process, which makes it end, and waits.
func (c *Child) Stop() error {
	_ = c.stdin.Close() // Wait closes it too
	select {
	case <-c.done:
	case <-time.After(patience):
		c.Kill()
	}
	return c.Ended()
}

// Kill ends the process at once.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // fails only if it has already ended
	<-c.done
}

// Ended returns nil while the process runs or if it succeeded.
func (c *Child) Ended() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(c.cmd.Args, " "), c.err, bytes.TrimSpace(c.Output.Bytes()))
}

// Usage is the resources that a process has used so far; zero if the system does not report them.
type Usage struct {
	CPU time.Duration
	// Resident memory and its peak, in bytes.
	Resident, Peak int64
}

// Usage returns the resources that the process has used so far, or in total if it has ended.
func (c *Child) Usage() Usage {
	select {
	case <-c.done:
		state := c.cmd.ProcessState
		return Usage{CPU: state.UserTime() + state.SystemTime(), Peak: peakOf(state)}
	default:
		return UsageOf(c.cmd.Process.Pid)
	}
}

// Redis starts a server without persistence on a free port.
func Redis(dir string) (server *Child, redisURL string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", fmt.Errorf("no redis-server on PATH: install it (Debian's package redis-server), or name an empty Redis by --redis: %w", err)
	}
	addr, err := FreeAddress()
	if err != nil {
		return nil, "", err
	}
	host, port, _ := net.SplitHostPort(addr)
	server, err = StartChild(exec.Command(path, "--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"))
	return server, "redis://" + addr + "/0", err
}

// FreeAddress returns host:port of a currently unused port of this machine.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Await polls until so returns true, at most half a minute.
func Await(ctx context.Context, event string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return await(ctx, 20*time.Millisecond, event, so)
}

// AwaitLong polls twice a second until so returns true or ctx ends.
func AwaitLong(ctx context.Context, event string, so func() (bool, error)) error {
	return await(ctx, time.Second/2, event, so)
}

func await(ctx context.Context, every time.Duration, event string, so func() (bool, error)) error {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", event, ctx.Err())
		}
	}
}

// WorkerCommand is the command of Options.Program that calls Work. The environment of the process
// names Redis and store.
const (
	WorkerCommand = "idle-worker"
	redisVariable = "COALMINE_REDIS_URL"
	storeVariable = "COALMINE_STORE_URL"
)

// startWorker starts a worker, which ends when its standard input does, and so with this process
// even if this process is killed.
func startWorker(program, redis, store string, slots int) (*Child, error) {
	cmd := exec.Command(program, WorkerCommand, "--slots", strconv.Itoa(slots))
	cmd.Env = append(os.Environ(), redisVariable+"="+redis, storeVariable+"="+store)
	return StartChild(cmd)
}

// Work runs a worker until standard input ends.
func Work(ctx context.Context, stdin io.Reader, slots int, log *slog.Logger) error {
	store, err := open.Open(ctx, os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	conn, err := queue.Open(ctx, os.Getenv(redisVariable))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // an error also means the end
		stop()
	}()
	w := &workers.Worker{Archive: storage.NewArchive(store), Queue: conn, Registry: Registry(), Slots: slots, Log: log}
	return errors.Join(w.Run(ctx), conn.Close())
}

// openQueue connects; a server just started may take a moment.
func openQueue(ctx context.Context, url string, started bool) (conn *queue.Conn, err error) {
	err = Await(ctx, "redis-server to answer", func() (bool, error) {
		conn, err = queue.Open(ctx, url)
		if started && errors.Is(err, queue.ErrUnreachable) {
			return false, nil
		}
		return true, err
	})
	return conn, err
}

// memoryDir returns a directory in memory if the system has one, otherwise "" for the default
// temporary directory.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// folderOf returns a new folder of a store, and a function that removes it.
func folderOf(location string) (place string, remove func(storage.Store) error, err error) {
	name := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if !strings.Contains(location, "://") {
		place = filepath.Join(location, name)
		return place, func(storage.Store) error { return os.RemoveAll(place) }, nil
	}
	u, err := url.Parse(location)
	if err != nil {
		return "", nil, fmt.Errorf("store: %w", err)
	}
	return u.JoinPath(name).String(), empty, nil
}

// deleteBatch is the number of objects of a deletion.
const deleteBatch = 500

func empty(s storage.Store) error {
	ctx := context.Background()
	var names []string
	for info, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
		names = append(names, info.Name)
	}
	for len(names) > 0 {
		n := min(len(names), deleteBatch)
		if err := s.Delete(ctx, names[:n]...); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}
