package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Nginx is a private nginx.
type Nginx struct{ *server }

// StartNginx starts nginx. servers returns its server blocks for a listening address. It
// skips the test if nginx is missing.
func StartNginx(t testing.TB, servers func(addr string) string) *Nginx {
	t.Helper()
	binary := find(t, "nginx", "COALMINE_NGINX", "install Debian's package nginx-light")
	dir := t.TempDir()
	n := &Nginx{&server{t: t, name: "nginx"}}
	n.ready = func(addr string) error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	n.args = func(addr string) []string {
		file := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(file, []byte(nginxConfig(dir, servers(addr))), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-p", dir, "-c", file, "-e", "stderr"}
	}
	n.start(binary)
	return n
}

// nginxConfig returns the configuration of a single process with all its files in a directory.
func nginxConfig(dir, servers string) string {
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	return fmt.Sprintf("daemon off;\nmaster_process off;\npid %s;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n",
		filepath.Join(dir, "pid"), temporary, servers)
}
