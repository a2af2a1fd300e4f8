package endtoend_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// cluster starts the services of compose.yaml as processes of this machine. It
// replaces the containers' host names and ports, paths, and the programs of the
// images.
type cluster struct {
	t                      testing.TB
	file                   *composeFile
	dir                    string
	redis, s3, coordinator string // host:port
	redisServer, versitygw string // programs
}

func newCluster(t testing.TB) *cluster {
	return &cluster{
		t: t, file: readCompose(t, composeSecrets), dir: t.TempDir(),
		redisServer: testserver.RedisServer(t), versitygw: testserver.Versitygw(t),
		redis: testserver.FreeAddress(t), s3: testserver.FreeAddress(t), coordinator: testserver.FreeAddress(t),
	}
}

// local replaces names that have a meaning only within the containers of a service.
func (c *cluster) local(service, text string) string {
	return strings.NewReplacer(
		"@redis:6379", "@"+c.redis,
		"//s3:7070", "//"+c.s3,
		"//127.0.0.1:7070", "//"+c.s3,
		"//localhost:8080", "//"+c.coordinator,
		"0.0.0.0:8080", c.coordinator,
		":7070", c.s3,
		"/run/secrets/", c.path(service)+"/",
		"/etc/redis/", c.path(service)+"/",
		"/data", c.path("data of "+service),
		"/cache", c.path("cache"),
	).Replace(text)
}

// path is a directory of the cluster's own. The one-shot service bucket works on
// the volume of s3.
func (c *cluster) path(name string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, strings.ReplaceAll(strings.ReplaceAll(name, "bucket", "s3"), " ", "-"))
	must.Do(c.t, os.MkdirAll(path, 0o755))
	return path
}

// program is the entry point of a service's image, ahead of the command.
func (c *cluster) program(s composeService) []string {
	switch {
	case len(s.Entrypoint) > 0:
		return s.Entrypoint
	case s.Image == "coalmine:local":
		return []string{binary}
	case s.Image == "coalmine-s3:local":
		return []string{c.versitygw}
	}
	return nil
}

// command is the command of a service, with other arguments if some are given.
func (c *cluster) command(service string, args ...string) command {
	c.t.Helper()
	s, ok := c.file.Services[service]
	if !ok {
		c.t.Fatalf("compose.yaml has no service %s", service)
	}
	for _, mount := range s.Configs {
		c.provide(c.local(service, mount.Target), c.local(service, c.file.Configs[mount.Source].Content))
	}
	if len(args) == 0 {
		args = s.Command
	}
	out := command{name: service}
	for _, word := range append(slices.Clone(c.program(s)), args...) {
		out.args = append(out.args, c.local(service, word))
	}
	if service == "redis" {
		host, port, _ := net.SplitHostPort(c.redis)
		out.args[0] = c.redisServer
		out.args = append(out.args, "--bind", host, "--port", port)
	}
	for name, value := range s.Environment {
		out.env = append(out.env, name+"="+c.local(service, value))
	}
	return out
}

// provide writes a file that containers find in place. A service may be reading it
// while its health is checked, so it is written once.
func (c *cluster) provide(path, content string) {
	c.t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	must.Do(c.t, os.WriteFile(path, []byte(content), 0o600))
}

// start starts a service and waits until its own health check is content.
func (c *cluster) start(service string) *process {
	c.t.Helper()
	p := start(c.t, c.command(service))
	p.await("the health check passes", func() bool { return c.healthy(service) })
	return p
}

// healthy runs the health check of a service.
func (c *cluster) healthy(service string) bool {
	c.t.Helper()
	check := c.command(service)
	check.args = nil
	for _, word := range c.file.Services[service].Healthcheck.Test[1:] {
		check.args = append(check.args, c.local(service, word))
	}
	switch check.args[0] {
	case "/coalmine":
		check.args[0] = binary
	case "redis-cli":
		host, port, _ := net.SplitHostPort(c.redis)
		check.args = slices.Insert(check.args, 1, "-h", host, "-p", port)
		if _, err := exec.LookPath("redis-cli"); err != nil {
			return reachable(c.redis)
		}
	case "wget":
		return answers(check.args[len(check.args)-1])
	}
	return succeeds(c.t, check)
}

func reachable(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func answers(url string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// coalmine is a command given to the service that is there for them.
func (c *cluster) coalmine(w workspace, args ...string) command {
	cmd := c.command("cli", args...)
	cmd.dir = w.dir
	return cmd
}

func (c *cluster) archive() *storage.Archive {
	c.t.Helper()
	environment := c.file.Services["worker"].Environment
	url := c.local("worker", environment["COALMINE_STORE_URL"])
	return storage.NewArchive(storagetest.OpenS3(c.t, url, environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]))
}

func TestComposeClusterMatchesOneProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	printed(t, c.command("bucket"))
	c.start("redis")
	c.start("s3")
	processes := []*process{c.start("coordinator"), c.start("worker"), c.start("worker")}

	w := newWorkspace(t)
	id := strings.TrimSpace(printed(t, c.coalmine(w, "submit", "experiment.yaml")))
	printed(t, c.coalmine(w, "watch", id))
	got := &outcome{printed(t, c.coalmine(w, "results", id, "--format", "json")), lastingCommits(t, c.archive())}
	undisturbed(t).equals(t, got)
	bothWorked(t, c.archive())
	c.pageWantsToken()

	for _, p := range processes {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range processes {
		if code := p.wait(); code != 0 && code != 3 {
			t.Errorf("%s ended with %d when it was asked to end", p.name, code)
		}
	}
}

// bothWorked makes sure that the digests are not those of one worker alone.
func bothWorked(t testing.TB, archive *storage.Archive) {
	t.Helper()
	workers := map[string]bool{}
	for _, c := range allCommits(t, archive) {
		workers[c.Provenance.Worker] = true
	}
	if len(workers) != 2 {
		t.Errorf("%d workers have committed, want 2", len(workers))
	}
}

// pageWantsToken makes sure that the API is closed to strangers.
func (c *cluster) pageWantsToken() {
	c.t.Helper()
	for token, want := range map[string]int{"": http.StatusUnauthorized, composeSecrets["COALMINE_TOKEN"]: http.StatusOK} {
		u := url.URL{Scheme: "http", Host: c.coordinator, Path: "/api/v1/runs"}
		request := must.Get(http.NewRequest(http.MethodGet, u.String(), nil))(c.t)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response := must.Get(http.DefaultClient.Do(request))(c.t)
		response.Body.Close()
		if response.StatusCode != want {
			c.t.Errorf("GET %s with token %q: %s, want %d", u.Path, token, response.Status, want)
		}
	}
}
