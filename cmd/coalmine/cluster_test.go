package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

// begun is a command that runs until end.
type begun struct {
	messages *bufio.Scanner
	end      context.CancelFunc
	status   chan int
}

// begin starts a command.
func begin(t *testing.T, args ...string) *begun {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	messages, stderr := io.Pipe()
	b := &begun{bufio.NewScanner(messages), end, make(chan int, 1)}
	go func() {
		defer stderr.Close()
		b.status <- execute(ctx, args, io.Discard, stderr)
	}()
	t.Cleanup(func() {
		end()
		_, _ = io.Copy(io.Discard, messages) // until it has ended
	})
	return b
}

// says waits for a message that contains a text.
func (b *begun) says(t *testing.T, text string) string {
	t.Helper()
	for b.messages.Scan() {
		if line := b.messages.Text(); strings.Contains(line, text) {
			return line
		}
	}
	t.Fatalf("it ended and did not say %q", text)
	return ""
}

func TestProcessesOfAClusterWaitForRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, works string }{
		"worker": {"worker", "ready"},
		"serve":  {"serve --listen localhost:0", "serving"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := testserver.StartRedis(t)
			redis.Kill()
			b := begin(t, append(strings.Fields(c.args), "--redis", redis.URL(), "--store", t.TempDir())...)
			if said := b.says(t, "waiting up to 1m0s"); !strings.Contains(said, redis.Addr()) {
				t.Errorf("it says %q, want the address %s", said, redis.Addr())
			}
			redis.Restart()
			b.says(t, c.works)
		})
	}
}

func TestASignalEndsTheWaitForRedis(t *testing.T) {
	t.Parallel()
	b := begin(t, "worker", "--redis", "redis://"+testserver.RefusingAddress(t), "--store", t.TempDir(), "--wait", "1h")
	b.says(t, "waiting up to 1h")
	b.end()
	b.says(t, "interrupted")
	if status := <-b.status; status != exitInterrupted {
		t.Errorf("exit status %d, want %d", status, exitInterrupted)
	}
}

// The keys of the store are in the environment, which tests share.
func TestWaitForClusterTimesOut(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-key")
	redis, s3 := "redis://"+testserver.RefusingAddress(t), "s3://coalmine/store?endpoint=http://"+testserver.RefusingAddress(t)
	refuses(t, "start redis-server", "serve", "--listen", "localhost:0", "--redis", redis, "--store", t.TempDir(), "--wait", "0")
	for _, c := range []struct{ redis, store, says string }{
		{redis, t.TempDir(), "start redis-server"},
		{testserver.StartRedis(t).URL(), s3, "no S3 server answers"},
	} {
		b := begin(t, "worker", "--redis", c.redis, "--store", c.store, "--wait", "1ms")
		b.says(t, "waiting up to 1ms: ")
		b.says(t, c.says)
		if status := <-b.status; status != exitUsage {
			t.Errorf("exit status %d, want %d", status, exitUsage)
		}
	}
}

// A secret that was not mounted leaves an empty file; without a token, everybody
// who reaches the server could do everything.
func TestEmptyTokenFileIsRejected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{"", "\n", " \t\n"} {
		writeFile(t, path, content)
		for name, flags := range map[string]listenFlags{"operator": {tokenFile: path}, "reader": {readTokenFile: path}} {
			if err := flags.complete(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s token %q: error %v, want one that names the file", name, content, err)
			}
		}
	}
}
