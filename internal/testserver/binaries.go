package testserver

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

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

// Elsewhere skips a test that compares with programs in other languages unless COALMINE_CHECK is
// set, as make check sets it. Its name must contain Elsewhere, by which make check finds it.
func Elsewhere(t testing.TB) {
	t.Helper()
	if !strings.Contains(t.Name(), "Elsewhere") {
		t.Fatalf("make check runs tests named ...Elsewhere: rename %s", t.Name())
	}
	if os.Getenv("COALMINE_CHECK") == "" {
		t.Skip("make check runs it, and each test with COALMINE_CHECK=1")
	}
}

// Python returns a Python that has the modules, separated by commas, for a test as Elsewhere
// defines it. It skips the test if there is none.
func Python(t testing.TB, modules string) string {
	t.Helper()
	Elsewhere(t)
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second has Debian's packages
		if exec.CommandContext(t.Context(), name, "-c", "import "+modules).Run() == nil {
			return name
		}
	}
	t.Skipf("no python3 with %s: scripts/setup.sh check installs it where it may", modules)
	return ""
}
