package endtoend_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/internal/testserver"
)

// secretExperiment draws its noise and cohorts from a key that no record holds.
const secretExperiment = `
name: secret
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%, example_probability: 100%}
model: {embedding: 8, units: 8}
training: {rounds: 4, cohort: 4, chunks: 2, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3, randomness: secret}}
audit: {random_sampling: {references: 500}}
`

// collectorKey is the key that the trace collector requires.
const collectorKey = "key-of-the-collector"

// secureCluster is one in which everything speaks TLS and asks for a secret: Redis
// for a password and a client certificate, the store for keys, the coordinator
// and the worker for tokens.
type secureCluster struct {
	t                   testing.TB
	workspace           workspace
	authority           *testserver.Authority
	redis               *testserver.Redis
	s3                  *testserver.S3
	collector           *collectorServer
	files               secrets.CertificateFiles
	coordinator, worker *process
	// secrets are the texts that must show nowhere; seen is the readable text of
	// the cluster, by place.
	secrets []string
	seen    map[string][]byte
}

func startSecureCluster(t testing.TB) *secureCluster {
	t.Helper()
	c := &secureCluster{t: t, workspace: newWorkspace(t), authority: testserver.NewAuthority(t), collector: startCollector(t), seen: map[string][]byte{}}
	server, client := c.authority.Issue("server"), c.authority.Issue("client")
	c.files = secrets.CertificateFiles{CA: c.authority.File, Certificate: client.Certificate, Key: client.Key}
	c.redis = testserver.StartSecureRedis(t, c.authority, server, "--requirepass", c.secret("password-of-redis"))
	c.s3 = testserver.StartSecureS3(t, c.authority, server)
	c.secrets = append(c.secrets, c.s3.SecretKey, collectorKey)
	c.workspace.write("secret.yaml", secretExperiment)
	c.workspace.write("token", c.secret("token-of-operators"))
	c.workspace.write("read-token", c.secret("token-of-readers"))
	c.workspace.write("key", c.secret("b0d449a91ebe346d3f6575050de32aa2731efabb7f7adf2eeae48ba6c652cf3a")+"\n")
	c.workspace.write("redis-password", "password-of-redis\n")
	c.workspace.write("credentials", fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", c.s3.AccessKey, c.s3.SecretKey))
	c.addKeys(server.Key, client.Key)

	listen := []string{"--listen", "127.0.0.1:0", "--token-file", "token", "--tls-cert", server.Certificate, "--tls-key", server.Key}
	// One has its secrets from the environment, the other from files.
	c.coordinator = c.start(append(c.s3.Env(), "COALMINE_REDIS_URL="+c.redisURL("password-of-redis")),
		append([]string{"serve", "--read-token-file", "read-token"}, listen...)...)
	c.worker = c.start([]string{"AWS_SHARED_CREDENTIALS_FILE=credentials", "COALMINE_REDIS_URL=" + c.redisURL("") + "&password_file=redis-password"},
		append([]string{"worker", "--slots", "2", "--cache", "cache"}, listen...)...)
	return c
}

// secret notes a text that must show nowhere.
func (c *secureCluster) secret(text string) string {
	c.secrets = append(c.secrets, text)
	return text
}

// addKeys notes the middle of key files, in which nothing but the key stands.
func (c *secureCluster) addKeys(paths ...string) {
	for _, path := range paths {
		data := must.Get(os.ReadFile(path))(c.t)
		c.secret(strings.Split(string(data), "\n")[1])
	}
}

func (c *secureCluster) redisURL(password string) string {
	query := url.Values{}
	c.files.Put(query)
	u := url.URL{Scheme: "rediss", Host: c.redis.Addr(), Path: "/0", RawQuery: query.Encode()}
	if password != "" {
		u.User = url.UserPassword("", password)
	}
	return u.String()
}

// command is one of coalmine that says all it can.
func (c *secureCluster) command(env []string, args ...string) command {
	out := c.workspace.coalmine(append(args, "--log-level", "debug")...)
	out.env = append([]string{
		"COALMINE_STORE_URL=" + c.s3.URL("store"), "COALMINE_SECRET_KEY_FILE=key",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=" + collectorKey,
	}, env...)
	return out
}

var listensSecurely = regexp.MustCompile(`at (https://127\.0\.0\.1:\d+)`)

func (c *secureCluster) start(env []string, args ...string) *process {
	p := start(c.t, c.command(env, args...))
	p.await("it listens", func() bool { return listensSecurely.MatchString(p.stderr.String()) })
	return p
}

// remotely is a command that talks to the coordinator alone.
func (c *secureCluster) remotely(args ...string) command {
	address := listensSecurely.FindStringSubmatch(c.coordinator.stderr.String())[1]
	return c.command([]string{"COALMINE_STORE_URL=", "COALMINE_SERVER=" + address + "?ca=" + c.files.CA, "COALMINE_TOKEN=token-of-operators"}, args...)
}

// run runs a command and keeps its output.
func (c *secureCluster) run(cmd command, code int) string {
	c.t.Helper()
	r := run(c.t, cmd)
	if r.code != code {
		c.t.Errorf("%q: exit status %d, want %d\n%s", cmd.args, r.code, code, r.stderr)
	}
	c.seen[fmt.Sprintf("what %q prints (%d)", cmd.args, len(c.seen))] = []byte(r.stdout + r.stderr)
	return r.stdout
}

func TestClusterOverTLSLeaksNoSecrets(t *testing.T) {
	t.Parallel()
	c := startSecureCluster(t)
	id := strings.TrimSpace(c.run(c.remotely("submit", "secret.yaml"), 0))
	c.run(c.remotely("watch", id), 0)
	t.Run("results", func(t *testing.T) { c.resultsAreThoseOfOneProcess(t, id) })
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"results", id}, {"logs", id}, {"health"}, {"worker", "--help"}} {
		c.run(c.remotely(args...), 0)
	}
	c.readPages(id)
	c.readProcesses()
	c.makeMistakes()
	for _, p := range []*process{c.worker, c.coordinator} {
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 0 {
			t.Errorf("%s: exit status %d", p.name, code)
		}
		c.seen["the log of "+p.name] = []byte(p.stdout.String() + p.stderr.String())
	}
	c.readSpans()
	cache := filepath.Join(c.workspace.dir, "cache")
	for _, dir := range []string{c.s3.Dir, c.redis.Dir, cache} {
		if c.readFiles(dir) == 0 && dir != cache { // whose inputs may all stand in commits
			t.Errorf("%s is empty", dir)
		}
	}
	c.noneHoldsASecret()
}

// resultsAreThoseOfOneProcess: neither TLS nor the way of the secrets changes a figure.
func (c *secureCluster) resultsAreThoseOfOneProcess(t *testing.T, id string) {
	alone := c.workspace.coalmine("run", "secret.yaml", "--home", "alone", "--secret-key", "key")
	printed(t, alone)
	want := printed(t, c.workspace.coalmine("results", "--home", "alone", "--format", "json"))
	got := c.run(c.remotely("results", id, "--format", "json"), 0)
	if run := regexp.MustCompile(`"run": "[^"]*"`); run.ReplaceAllString(got, "") != run.ReplaceAllString(want, "") {
		t.Errorf("over TLS:\n%s\nalone:\n%s", got, want)
	}
}

// readPages reads the answers of the coordinator and the worker.
func (c *secureCluster) readPages(id string) {
	c.t.Helper()
	config := must.Get(c.files.Config())(c.t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	run := "/api/v1/runs/" + id
	for p, paths := range map[*process][]string{
		c.coordinator: {"/", "/login", "/metrics", "/readyz", "/api/v1/runs", run, run + "/results", run + "/model", run + "/logs", "/nowhere"},
		c.worker:      {"/", "/metrics", "/readyz"},
	} {
		for _, path := range paths {
			c.readPage(client, listensSecurely.FindStringSubmatch(p.stderr.String())[1]+path)
		}
	}
}

func (c *secureCluster) readPage(client *http.Client, address string) {
	c.t.Helper()
	request := must.Get(http.NewRequestWithContext(c.t.Context(), http.MethodGet, address, nil))(c.t)
	request.Header.Set("Authorization", "Bearer token-of-operators")
	response := must.Get(client.Do(request))(c.t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(c.t)
	c.seen["the page "+address] = append(body, fmt.Sprint(response.Header)...)
}

// readProcesses reads the command lines, which every user of the machine can read.
func (c *secureCluster) readProcesses() {
	for _, p := range []*process{c.coordinator, c.worker} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
		if err != nil {
			line = []byte(strings.Join(p.cmd.Args, "\x00")) // no Linux
		}
		c.seen["the command line of "+p.name] = line
	}
}

// makeMistakes has commands fail over every secret.
func (c *secureCluster) makeMistakes() {
	c.t.Helper()
	trust := "?ca=" + c.files.CA
	address := listensSecurely.FindStringSubmatch(c.coordinator.stderr.String())[1]
	store := "COALMINE_STORE_URL=" + c.s3.URL("store")
	redis := "COALMINE_REDIS_URL=" + c.redisURL("password-of-redis")
	for _, m := range []struct {
		env  []string
		says string
	}{
		{[]string{store, "COALMINE_REDIS_URL=" + c.redisURL(c.secret("wrong-password"))}, "refuses the login"},
		{[]string{store, "COALMINE_REDIS_URL=rediss://:password-of-redis@" + c.redis.Addr()}, "ca=FILE"},
		{[]string{store, "COALMINE_REDIS_URL=rediss://:password-of-redis@" + c.redis.Addr() + trust}, "cert=FILE"},
		{[]string{store, "COALMINE_REDIS_URL=rediss://:password-of-redis@127.0.0.1:1"}, "start redis-server"},
		{[]string{store, "COALMINE_REDIS_URL=rediss://:password-of-redis/x@h"}, "not a URL"},
		{[]string{redis, store + "&token=" + c.secret("token-in-a-url")}, "allowed are"},
		{[]string{redis, "COALMINE_STORE_URL=s3://" + c.s3.AccessKey + ":" + c.s3.SecretKey + "@coalmine"}, "holds credentials"},
		{[]string{redis, "COALMINE_STORE_URL=s3://coalmine/store?endpoint=" + c.s3.Endpoint()}, "ca=FILE"},
		{[]string{redis, store, "AWS_SECRET_ACCESS_KEY=" + c.secret("wrong-secret-key")}, "refuses access"},
		{[]string{redis, store, "COALMINE_SECRET_KEY_FILE=token"}, "is not a key"},
	} {
		cmd := c.command(append(c.s3.Env(), m.env...), "worker", "--wait", "0")
		c.runMistaken(cmd, m.says)
	}
	for server, says := range map[string]string{
		address: "ca=FILE", address + trust: "token", "https://" + c.secrets[0] + "@h" + trust: "server address", address + trust + "&token=token-in-a-url": "server address",
	} {
		c.runMistaken(c.command([]string{"COALMINE_STORE_URL=", "COALMINE_SERVER=" + server, "COALMINE_TOKEN=" + c.secret("wrong-token")}, "status"), says)
	}
}

func (c *secureCluster) runMistaken(cmd command, says string) {
	c.t.Helper()
	cmd.quiet = true
	r := run(c.t, cmd)
	if r.code != 2 || !strings.Contains(r.stderr, says) {
		c.t.Errorf("%q ends with %d and says, in place of %q:\n%s", cmd.args[1:], r.code, says, r.stderr)
	}
	c.seen[fmt.Sprintf("the error about %q (%d)", says, len(c.seen))] = []byte(r.stdout + r.stderr)
}

func (c *secureCluster) readSpans() {
	c.t.Helper()
	c.collector.mu.Lock()
	defer c.collector.mu.Unlock()
	if len(c.collector.spans) == 0 {
		c.t.Error("no traces were sent")
	}
	for id, s := range c.collector.spans {
		data := must.Get(protojson.Marshal(s.Span))(c.t)
		c.seen[fmt.Sprintf("the span %x", id)] = data
	}
}

// readFiles reads all that is below a directory, names included, and counts it.
func (c *secureCluster) readFiles(dir string) int {
	c.t.Helper()
	before := len(c.seen)
	must.Do(c.t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		c.seen["the file "+path] = append(data, e.Name()...)
		return err
	}))
	return len(c.seen) - before
}

// noneHoldsASecret looks for every secret, as it is and as encodings have it.
func (c *secureCluster) noneHoldsASecret() {
	c.t.Helper()
	for _, secret := range c.secrets {
		forms := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret), fmt.Sprintf("%x", secret)}
		for where, what := range c.seen {
			if slices.ContainsFunc(forms, func(form string) bool { return bytes.Contains(what, []byte(form)) }) {
				c.t.Errorf("%s holds a secret, %.12q…", where, secret)
			}
		}
	}
}
