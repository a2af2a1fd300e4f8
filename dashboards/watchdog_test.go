package dashboards

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
)

// impatient returns a client with short timeouts.
func impatient(t *testing.T, address string) *Client {
	t.Helper()
	c := must.Get(NewClient(address, ""))(t)
	c.watchdogTimes = watchdogTimes{silence: 100 * time.Millisecond, probe: 100 * time.Millisecond, longest: time.Minute}
	return c
}

// mute accepts connections, answers the first request with words, and then stays silent.
func mute(t *testing.T, words string) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			if words != "" {
				_, _ = conn.Read(make([]byte, 1<<10))
			}
			_, _ = conn.Write([]byte(words))
			words = "" // the second connection is a probe
		}
	}()
	return l.Addr().String()
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	large := bytes.NewReader(make([]byte, 32<<20))
	for name, words := range map[string]string{
		"from the start": "",
		"in the middle":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"runs\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c := impatient(t, mute(t, words))
			_, err := c.List(ctx)
			if err == nil || !strings.Contains(err.Error(), "sent nothing") || !strings.Contains(err.Error(), c.String()) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("to an upload", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c := impatient(t, mute(t, "HTTP/1.1 100 Continue\r\n\r\n"))
		err := c.upload(ctx, storage.Digest{}, large, large.Size())
		if err == nil || !strings.Contains(err.Error(), "sent nothing") {
			t.Errorf("got %v", err)
		}
	})
}

// A client waits as long as the server answers probes, up to a limit.
func TestClientWaitsForLiveServer(t *testing.T) {
	t.Parallel()
	asked, stop := make(chan bool, 100), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			asked <- true
			return
		}
		for range 3 {
			select {
			case <-asked:
			case <-stop:
				return
			}
		}
		_, _ = w.Write([]byte(`{"runs": []}`))
	}))
	t.Cleanup(server.Close)
	c := impatient(t, server.URL)
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("a server that answers probes: %v", err)
	}
	c.longest = 150 * time.Millisecond
	c.watchdogTimes.silence = 200 * time.Millisecond
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "has sent nothing for") {
		t.Errorf("after the longest silence: %v", err)
	}
	close(stop)
}
