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

// Versitygw returns the path of versitygw, like RedisServer.
func Versitygw(t testing.TB) string {
	t.Helper()
	return find(t, "versitygw", "COALMINE_VERSITYGW",
		"go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 (scripts/setup.sh does)")
}

// InCheck skips a test unless COALMINE_CHECK is set, as make check sets it. The test's name must
// contain part, with which make check selects it.
func InCheck(t testing.TB, part string) {
	t.Helper()
	if !strings.Contains(t.Name(), part) {
		t.Fatalf("make check runs tests by the name %s: rename %s", part, t.Name())
	}
	if os.Getenv("COALMINE_CHECK") == "" {
		t.Skip("make check runs it, and each test with COALMINE_CHECK=1")
	}
}

// Python returns a Python that has the modules, separated by commas, for a test of make check, named
// ...Elsewhere. It skips the test if there is none.
func Python(t testing.TB, modules string) string {
	t.Helper()
	InCheck(t, "Elsewhere")
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second has Debian's packages
		if exec.CommandContext(t.Context(), name, "-c", "import "+modules).Run() == nil {
			return name
		}
	}
	t.Skipf("no python3 with %s: scripts/setup.sh check installs it where it may", modules)
	return ""
}
