package queue

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/testserver"
)

// startRedis starts a server that keeps nothing: the queue must not need it to.
func startRedis(t testing.TB, options ...string) *testserver.Redis {
	t.Helper()
	return testserver.StartRedis(t, append([]string{"--appendonly", "no"}, options...)...)
}

// bypass is a client past the package.
func bypass(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustOpen(t testing.TB, url string) *Conn {
	t.Helper()
	conn, err := Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, conn)
	return conn
}

func mustEmbed(t testing.TB) *Conn {
	t.Helper()
	conn, err := Embedded(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, conn)
	return conn
}

func closeAfter(t testing.TB, conn *Conn) {
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// onBoth runs a test over the embedded server and over a real one.
func onBoth(t *testing.T, test func(t *testing.T, conn *Conn)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, mustEmbed(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, mustOpen(t, startRedis(t).URL()))
	})
}

// startSentinel starts a Sentinel that watches the master at addr under the name
// "m", and returns its address.
func startSentinel(t testing.TB, master string) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on PATH: install Debian's package redis-server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	host, port, _ := net.SplitHostPort(master)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor m %s %s 1\n", addr.Port, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, config, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := bypass(t, addr.String())
	eventually(t, "the Sentinel answers", func() bool { return c.Ping(testContext(t)).Err() == nil })
	return addr.String()
}

// lock makes the server ask for a password from now on.
func lock(t testing.TB, server *testserver.Redis, password string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := bypass(t, server.Addr()).ConfigSet(ctx, "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
