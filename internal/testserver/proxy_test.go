package testserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// patience is the limit for required events; moment is the time for which a
// test watches for forbidden ones.
const (
	patience = 10 * time.Second
	moment   = 50 * time.Millisecond
)

// startEcho is a server that answers every line with the same.
func startEcho(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// client is a connection to an echo server.
type client struct {
	t    *testing.T
	conn net.Conn
	read *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

// connected is a client that the server has answered.
func connected(t *testing.T, link *testserver.Link) *client {
	t.Helper()
	c := dial(t, link.Addr())
	c.say("hello")
	c.hears("hello")
	return c
}

func (c *client) say(text string) {
	c.t.Helper()
	must.Get(fmt.Fprintln(c.conn, text))(c.t)
}

// hear returns the next line within d.
func (c *client) hear(d time.Duration) (string, error) {
	c.t.Helper()
	must.Do(c.t, c.conn.SetReadDeadline(time.Now().Add(d)))
	line, err := c.read.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (c *client) hears(want string) {
	c.t.Helper()
	if got, err := c.hear(patience); err != nil || got != want {
		c.t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func (c *client) hearsNothing() {
	c.t.Helper()
	if got, err := c.hear(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("heard %q, %v, want nothing", got, err)
	}
}

func (c *client) isReset() {
	c.t.Helper()
	if got, err := c.hear(patience); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("heard %q, %v, want a reset", got, err)
	}
}

// resetsNew makes sure that a new connection is reset; that may come so early that
// it is not even made.
func resetsNew(t *testing.T, link *testserver.Link) {
	t.Helper()
	conn, err := net.Dial("tcp", link.Addr())
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestCutLinkResetsOldAndNewConnections(t *testing.T) {
	t.Parallel()
	link := testserver.NewLink(t, startEcho(t))
	old := connected(t, link)
	link.Set(testserver.Cut)
	old.isReset()
	resetsNew(t, link)
	link.Set(testserver.Open)
	connected(t, link)
}

func TestStalledLinkDeliversLater(t *testing.T) {
	t.Parallel()
	link := testserver.NewLink(t, startEcho(t))
	old := connected(t, link)
	link.Set(testserver.Stalled)
	old.say("meanwhile")
	fresh := dial(t, link.Addr())
	fresh.say("new")
	old.hearsNothing()
	fresh.hearsNothing()
	link.Set(testserver.Open)
	old.hears("meanwhile")
	fresh.hears("new")
}

func TestHalfOpenLinkDropsData(t *testing.T) {
	t.Parallel()
	link := testserver.NewLink(t, startEcho(t))
	silent, talking := connected(t, link), connected(t, link)
	link.Set(testserver.HalfOpen)
	talking.say("lost")
	talking.hearsNothing()
	link.Set(testserver.Open)
	talking.isReset()
	silent.say("after") // it has lost nothing
	silent.hears("after")
}

func TestSlowLinkDelivers(t *testing.T) {
	t.Parallel()
	link := testserver.NewLink(t, startEcho(t))
	link.Set(testserver.Slow)
	connected(t, link)
}

func TestResetKeepsLinkOpen(t *testing.T) {
	t.Parallel()
	link := testserver.NewLink(t, startEcho(t))
	old := connected(t, link)
	link.Reset()
	old.isReset()
	connected(t, link)
}

func TestLinkToClosedPortResets(t *testing.T) {
	t.Parallel()
	resetsNew(t, testserver.NewLink(t, testserver.RefusingAddress(t)))
}

const content = "0123456789abcdef"

func TestFrontInjectsFaults(t *testing.T) {
	t.Parallel()
	for spoiling, want := range map[testserver.Fault]struct {
		status  int
		body    string
		broken  bool // the answer, or its body, is cut short
		reached bool
	}{
		testserver.None:        {200, content, false, true},
		testserver.Unavailable: {503, "", false, false},
		testserver.Failing:     {500, "", false, false},
		testserver.Lost:        {0, "", true, false},
		testserver.Unanswered:  {0, "", true, true},
		testserver.Late:        {200, content, false, true},
		testserver.Trickling:   {200, content, false, true},
		testserver.Truncated:   {200, "", true, true},
		testserver.Short:       {200, "", false, true},
		testserver.Flipped:     {200, "", false, true},
	} {
		t.Run(spoiling.String(), func(t *testing.T) {
			t.Parallel()
			var reached atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Store(true)
				_, _ = io.WriteString(w, content)
			}))
			t.Cleanup(server.Close)
			front := testserver.NewFront(t, server.Listener.Addr().String())
			front.SetFault(func(*http.Request) testserver.Fault { return spoiling })
			status, body, err := get("http://" + front.Addr() + "/")
			if status != want.status || (err != nil) != want.broken || reached.Load() != want.reached {
				t.Errorf("status %d, error %v, reached %v, want %+v", status, err, reached.Load(), want)
			}
			if want.body != "" && body != want.body {
				t.Errorf("body %q, want %q", body, want.body)
			}
			if want.body == "" && body == content {
				t.Errorf("the body is whole")
			}
		})
	}
}

func get(url string) (status int, body string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestFrontWatchReportsAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	front := testserver.NewFront(t, server.Listener.Addr().String())
	seen := make(chan string, 1)
	front.Watch(func(r *http.Request, status int) { seen <- fmt.Sprint(r.Method, " ", r.URL.Path, " ", status) })
	front.SetFault(func(*http.Request) testserver.Fault { return testserver.Unanswered })
	if _, _, err := get("http://" + front.Addr() + "/object"); err == nil {
		t.Error("the answer was not lost")
	}
	if got := <-seen; got != "GET /object 404" {
		t.Errorf("saw %q", got)
	}
}
