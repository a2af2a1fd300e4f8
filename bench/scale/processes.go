package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
)

// workerArgs is the command line of a worker; Redis and store are in its environment.
func workerArgs(slots int) []string {
	return []string{"bench", "idle-worker", "--slots", strconv.Itoa(slots)}
}

// child is a process that was started.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	output *bytes.Buffer
	done   chan struct{} // closed when it has ended
	err    error         // valid after done
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, output: new(bytes.Buffer), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.output, c.output
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

// startWorker starts a worker, which ends when its standard input does, and so
// with this process even if that is killed.
func startWorker(program, redis, store string, slots int) (*child, error) {
	cmd := exec.Command(program, workerArgs(slots)...)
	cmd.Env = append(os.Environ(), "COALMINE_REDIS_URL="+redis, "COALMINE_STORE_URL="+store)
	return startChild(cmd)
}

// Work runs work until standard input ends.
func Work(ctx context.Context, stdin io.Reader, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // however it ends, it has ended
		stop()
	}()
	return work(ctx)
}

// stop ends a worker in good order.
func (c *child) stop() error {
	_ = c.stdin.Close() // Wait closes it too
	select {
	case <-c.done:
	case <-time.After(patience):
		c.kill()
	}
	return c.ended()
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // an error means that it has ended already
	<-c.done
}

// ended is nil while the process runs or if it has ended well.
func (c *child) ended() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(c.cmd.Args, " "), c.err, bytes.TrimSpace(c.output.Bytes()))
}

// startRedis starts a server that keeps nothing, on a free port.
func startRedis(dir string) (server *child, redisURL string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", fmt.Errorf("no redis-server on PATH: install it (Debian's package redis-server), or name an empty Redis by --redis: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		return nil, "", err
	}
	server, err = startChild(exec.Command(path, "--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"))
	return server, "redis://" + net.JoinHostPort(host, port) + "/0", err
}

// openQueue connects; a server that has just been started may take a moment.
func openQueue(ctx context.Context, url string, started bool) (conn *queue.Conn, err error) {
	err = await(ctx, "redis-server to answer", func() (bool, error) {
		conn, err = queue.Open(ctx, url)
		if started && errors.Is(err, queue.ErrUnreachable) {
			return false, nil
		}
		return true, err
	})
	return conn, err
}

// memoryDir is a directory in memory where the system has one, else "" for the
// usual place of temporary files.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// folderOf is a new folder of a store, and what removes it.
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

// deleteBatch is how many objects are deleted at a time.
const deleteBatch = 500

// empty deletes all objects of a store.
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
