package testserver

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
)

// Redis is a private redis-server: initially empty, appending every write to its file at
// once, and never evicting.
type Redis struct {
	*server
	// Dir is the directory with its files.
	Dir string
	// ca is the certificate file of the authority that signed its certificate; "" without TLS.
	ca string
}

// StartRedis starts a server. Options are further arguments of redis-server, such as
// "--appendonly", "no".
func StartRedis(t testing.TB, options ...string) *Redis {
	t.Helper()
	return startRedis(t, nil, "--port", pingRedis, options)
}

// StartSecureRedis starts a server that accepts only TLS, with a certificate of the
// authority, and requires client certificates of the same authority.
func StartSecureRedis(t testing.TB, a *Authority, pair Pair, options ...string) *Redis {
	t.Helper()
	client := a.Issue("ping")
	ping := func(addr string) error { return pingSecureRedis(addr, client) }
	options = append([]string{
		"--tls-cert-file", pair.Certificate, "--tls-key-file", pair.Key, "--tls-ca-cert-file", a.File, "--port", "0",
	}, options...)
	return startRedis(t, a, "--tls-port", ping, options)
}

func startRedis(t testing.TB, a *Authority, portOption string, ready func(addr string) error, options []string) *Redis {
	t.Helper()
	binary := RedisServer(t)
	r := &Redis{server: &server{t: t, name: "redis-server", ready: ready}, Dir: t.TempDir()}
	if a != nil {
		r.ca = a.File
	}
	r.args = func(addr string) []string {
		host, port, _ := net.SplitHostPort(addr)
		return append([]string{
			"--bind", host, portOption, port, "--dir", r.Dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			"--maxmemory-policy", "noeviction", "--loglevel", "notice",
		}, options...)
	}
	r.start(binary)
	return r
}

// URL returns redis://host:port/0, or rediss://host:port/0?ca=FILE.
func (r *Redis) URL() string {
	if r.ca != "" {
		return "rediss://" + r.Addr() + "/0?ca=" + r.ca
	}
	return "redis://" + r.Addr() + "/0"
}

// MinRights returns the command of docs/operations.md that makes a user of least
// rights, for tests of packages below internal.
func MinRights(t testing.TB, password string) []any {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/operations.md"))(t)
	line := regexp.MustCompile(`(?m)^\s*(ACL SETUSER coalmine .*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/operations.md has no ACL")
	}
	var command []any
	for _, word := range strings.Fields(strings.Replace(string(line[1]), ">PASSWORD", ">"+password, 1)) {
		command = append(command, word)
	}
	return command
}

// pingTimeout limits one check whether a server is ready.
const pingTimeout = time.Second

// pingRedis polls until the server has loaded its data.
func pingRedis(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, pingTimeout)
	if err != nil {
		return err
	}
	return ping(conn)
}

func pingSecureRedis(addr string, client Pair) error {
	certificate, err := tls.LoadX509KeyPair(client.Certificate, client.Key)
	if err != nil {
		return err
	}
	// The test verifies the server's certificate.
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: pingTimeout}, "tcp", addr, config)
	if err != nil {
		return err
	}
	return ping(conn)
}

// ping also accepts a refusal as an answer: a server that asks for a password is ready,
// one that loads its data is not.
func ping(conn net.Conn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(pingTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		err = fmt.Errorf("it said %q to a ping", line)
	}
	return err
}

// Sentinel is a private Redis Sentinel. It considers a master dead after half a
// second without an answer.
type Sentinel struct{ *server }

// SentinelConfig configures a Sentinel.
type SentinelConfig struct {
	// Master is the host:port of the master, known to clients as Name.
	Master, Name string
	// Quorum is the number of Sentinels that must agree that the master is dead.
	Quorum int
	// Password is the Sentinel's password, MasterPassword that of the Redis servers; empty for none.
	Password, MasterPassword string
	// Authority and Pair, unless nil, make the Sentinel use only TLS, with clients,
	// the Redis servers and other Sentinels.
	Authority *Authority
	Pair      Pair
}

func StartSentinel(t testing.TB, c SentinelConfig) *Sentinel {
	t.Helper()
	binary := RedisServer(t)
	s := &Sentinel{&server{t: t, name: "redis-sentinel", ready: pingRedis}}
	if c.Authority != nil {
		client := c.Authority.Issue("ping")
		s.ready = func(addr string) error { return pingSecureRedis(addr, client) }
	}
	dir := t.TempDir()
	s.args = func(addr string) []string {
		path := filepath.Join(dir, "sentinel.conf") // it stores its state there
		if err := os.WriteFile(path, []byte(c.text(addr, dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{path, "--sentinel"}
	}
	s.start(binary)
	return s
}

// text returns the configuration of a Sentinel at an address.
func (c SentinelConfig) text(addr, dir string) string {
	host, port, _ := net.SplitHostPort(addr)
	masterHost, masterPort, _ := net.SplitHostPort(c.Master)
	lines := []string{
		"bind " + host, "dir " + dir,
		fmt.Sprintf("sentinel monitor %s %s %s %d", c.Name, masterHost, masterPort, c.Quorum),
		"sentinel down-after-milliseconds " + c.Name + " 500",
		"sentinel failover-timeout " + c.Name + " 5000",
	}
	if c.Authority == nil {
		lines = append(lines, "port "+port)
	} else {
		lines = append(lines, "port 0", "tls-port "+port, "tls-replication yes",
			"tls-cert-file "+c.Pair.Certificate, "tls-key-file "+c.Pair.Key, "tls-ca-cert-file "+c.Authority.File)
	}
	if c.Password != "" {
		lines = append(lines, "requirepass "+c.Password)
	}
	if c.MasterPassword != "" {
		lines = append(lines, "sentinel auth-pass "+c.Name+" "+c.MasterPassword)
	}
	return strings.Join(lines, "\n") + "\n"
}

// S3 is a private versitygw with a temporary directory, one bucket and its own keys.
type S3 struct {
	*server
	Bucket    string
	AccessKey string
	SecretKey string
	// Dir is the directory; its subdirectory Bucket holds the objects as files.
	Dir string
	// scheme is that of the endpoint, ca the certificate file of the authority that signed the server's
	// certificate; "" without TLS.
	scheme, ca string
}

func StartS3(t testing.TB) *S3 {
	t.Helper()
	return startS3(t, "http://", "")
}

// StartSecureS3 starts a server with TLS and a certificate of the authority.
func StartSecureS3(t testing.TB, a *Authority, pair Pair) *S3 {
	t.Helper()
	return startS3(t, "https://", a.File, "--cert", pair.Certificate, "--key", pair.Key)
}

func startS3(t testing.TB, scheme, ca string, options ...string) *S3 {
	t.Helper()
	binary := Versitygw(t)
	s := &S3{
		server:    &server{t: t, name: "versitygw"},
		Bucket:    "coalmine",
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		Dir:       t.TempDir(),
		scheme:    scheme,
		ca:        ca,
	}
	s.ready = func(addr string) error { return askS3(scheme + addr) }
	// The gateway treats top-level directories as buckets.
	if err := os.Mkdir(filepath.Join(s.Dir, s.Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey}
	s.args = func(addr string) []string {
		// Without --keep-alive: with it, the unread body of a refused request
		// would be parsed as the next request.
		return slices.Concat([]string{"--port", addr, "--quiet"}, options, []string{"posix", s.Dir})
	}
	s.start(binary)
	return s
}

// Endpoint returns http://host:port or https://host:port.
func (s *S3) Endpoint() string { return s.scheme + s.Addr() }

// URL returns the address of a store under a prefix of the bucket, which may be empty.
func (s *S3) URL(prefix string) string {
	query := url.Values{"endpoint": {s.Endpoint()}}
	if s.ca != "" {
		query.Set("ca", s.ca)
	}
	u := url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: query.Encode()}
	return u.String()
}

// Env returns the credentials as environment variables, NAME=value.
func (s *S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// askS3 accepts any HTTP answer as a sign of life: without keys it is a refusal.
// The test verifies the server's certificate.
func askS3(endpoint string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	resp, err := client.Get(endpoint + "/")
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	return nil
}
