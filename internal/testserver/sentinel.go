package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sentinel is a private Redis Sentinel. It considers a master dead after half a
// second without an answer.
type Sentinel struct{ *server }

// SentinelConfig configures a Sentinel.
type SentinelConfig struct {
	// Master is the host:port of the master, known to clients as Name.
	Master, Name string
	// Quorum is the number of Sentinels that must agree that the master is
	// dead.
	Quorum int
	// Password is the Sentinel's password, MasterPassword that of the Redis servers;
	// empty for none.
	Password, MasterPassword string
	// Authority and Pair, unless nil, make the Sentinel use only TLS, with clients,
	// the Redis servers and other Sentinels.
	Authority *Authority
	Pair      Pair
}

// StartSentinel starts a Sentinel.
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
