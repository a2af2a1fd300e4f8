package testserver

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Redis is a private redis-server: databases empty at the start, appending every
// write to its file at once, and never evicting.
type Redis struct {
	*server
	// Dir is the directory with its files.
	Dir string
}

// StartRedis starts one. Options are further arguments of redis-server, such as
// "--appendonly", "no".
func StartRedis(t testing.TB, options ...string) *Redis {
	t.Helper()
	binary := RedisServer(t)
	r := &Redis{&server{t: t, name: "redis-server", ready: pingRedis}, t.TempDir()}
	r.args = func(addr string) []string {
		host, port, _ := net.SplitHostPort(addr)
		return append([]string{
			"--bind", host, "--port", port, "--dir", r.Dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			"--maxmemory-policy", "noeviction", "--loglevel", "notice",
		}, options...)
	}
	r.start(binary)
	return r
}

// URL is redis://host:port/0.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// pingRedis asks until the server has loaded its data.
func pingRedis(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "+PONG" {
		err = fmt.Errorf("it said %q to a ping", line)
	}
	return err
}
