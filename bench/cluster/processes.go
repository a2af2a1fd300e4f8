// These files start the processes that a benchmark measures, and read their
// processor time and memory.

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"
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

// Usage is the resources that a process has used so far; zero if the system does not
// report them.
type Usage struct {
	CPU time.Duration
	// Resident memory and its peak, in bytes.
	Resident, Peak int64
}

// Usage returns the resources that the process has used so far, or in total if it
// has ended.
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
