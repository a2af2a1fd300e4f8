package testserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

func TestRedisKeepsItsDataWhenKilled(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	if got := command(t, redis.Addr(), "SET canary inserted"); got != "+OK" {
		t.Fatalf("SET: %q", got)
	}
	addr := redis.Addr()
	redis.Kill()
	redis.Kill() // again is harmless
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Fatal("a killed server still answers")
	}
	redis.Restart()
	if redis.Addr() != addr {
		t.Errorf("address changed from %s to %s", addr, redis.Addr())
	}
	if got := command(t, addr, "EXISTS canary"); got != ":1" {
		t.Errorf("EXISTS after a restart: %q", got)
	}
}

func command(t *testing.T, addr, line string) string {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	defer conn.Close()
	must.Get(fmt.Fprintf(conn, "%s\r\n", line))(t)
	reply := must.Get(bufio.NewReader(conn).ReadString('\n'))(t)
	return strings.TrimSpace(reply)
}

func TestS3RejectsRequestsWithoutKeys(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	for range 2 {
		resp := must.Get(http.Get(server.Endpoint() + "/" + server.Bucket + "/object"))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("status %s: %s", resp.Status, body)
		}
		server.Restart()
	}
}
