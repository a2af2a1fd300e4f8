package queue

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
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
	conn := must.Get(Open(context.Background(), url))(t)
	closeAfter(t, conn)
	return conn
}

func mustEmbed(t testing.TB) *Conn {
	t.Helper()
	conn := must.Get(Embedded(context.Background()))(t)
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

// lock makes the server ask for a password from now on.
func lock(t testing.TB, server *testserver.Redis, password string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must.Do(t, bypass(t, server.Addr()).ConfigSet(ctx, "requirepass", password).Err())
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
