package testserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"regexp"
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
