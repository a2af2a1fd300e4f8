package testserver

import "testing"

// RedisServer returns the path of redis-server, for tests that start it
// themselves. It skips the test if there is none.
func RedisServer(t testing.TB) string {
	t.Helper()
	return find(t, "redis-server", "COALMINE_REDIS_SERVER", "install Debian's package redis-server")
}

// Versitygw is the path of versitygw; otherwise as RedisServer.
func Versitygw(t testing.TB) string {
	t.Helper()
	return find(t, "versitygw", "COALMINE_VERSITYGW",
		"go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 (scripts/setup.sh does)")
}
