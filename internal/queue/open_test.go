package queue

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

func TestOpenErrorsNameRemedy(t *testing.T) {
	t.Parallel()
	nobody := testserver.RefusingAddress(t)
	evicting := startRedis(t, "--maxmemory-policy", "allkeys-lru")
	locked := startRedis(t)
	lock(t, locked, "s3cret")
	master := startRedis(t)
	_, port, _ := net.SplitHostPort(master.Addr())
	replica := startRedis(t, "--replicaof", "127.0.0.1 "+port)

	for name, c := range map[string]struct {
		url  string
		kind error
		says []string
	}{
		"nobody there":   {"redis://" + nobody, ErrUnreachable, []string{nobody, "start redis-server"}},
		"evicts":         {evicting.URL(), ErrUnsuitable, []string{evicting.Addr(), "allkeys-lru", "noeviction"}},
		"no Sentinels":   {"redis-sentinel://" + nobody + ",127.0.0.1:1?master=m", ErrUnreachable, []string{nobody, "start the Sentinels", "; "}},
		"no password":    {locked.URL(), ErrUnsuitable, []string{locked.Addr(), "user:password"}},
		"wrong password": {"redis://:wr0ng@" + locked.Addr(), ErrUnsuitable, []string{locked.Addr(), "user:password"}},
		"replica":        {replica.URL(), ErrUnsuitable, []string{"read-only", "master"}},
		"not a URL":      {"localhost:6379", nil, []string{"no scheme", "redis://"}},
		"other scheme":   {"amqp://localhost", nil, []string{"amqp", "rediss"}},
		"bad database":   {"redis://localhost/x", nil, []string{"database"}},
		"no master name": {"redis-sentinel://a:1,b:2", nil, []string{"?master="}},
		"empty sentinel": {"redis-sentinel://a:1,,b:2?master=m", nil, []string{"host:port"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := openError(t, c.url)
			if c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("error %q does not wrap %q", err, c.kind)
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("error %q does not say %q", err, words)
				}
			}
			for _, secret := range []string{"wr0ng", "s3cret"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q shows the password", err)
				}
			}
		})
	}
}

func TestOpenTakesPasswordsAndDatabases(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	lock(t, server, "s3cret")
	conn := mustOpen(t, "redis://:s3cret@"+server.Addr()+"/3")
	if err := conn.Broker().Publish(context.Background(), "x", []byte("y"), time.Minute); err != nil {
		t.Error(err)
	}
	if s := conn.String(); strings.Contains(s, "s3cret") || !strings.Contains(s, server.Addr()) || !strings.Contains(s, "3") {
		t.Errorf("String() = %q: want address and database, no password", s)
	}
}

func TestOpenAsksTheSentinelsForTheMaster(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	sentinel := testserver.StartSentinel(t, testserver.SentinelConfig{Master: master.Addr(), Name: "m", Quorum: 1})
	conn := mustOpen(t, "redis-sentinel://127.0.0.1:1,"+sentinel.Addr()+"/2?master=m")
	if err := conn.Broker().Publish(context.Background(), "x", []byte("y"), time.Minute); err != nil {
		t.Error(err)
	}
	c := redis.NewClient(&redis.Options{Addr: master.Addr(), DB: 2})
	defer func() { _ = c.Close() }()
	if n, err := c.Exists(context.Background(), publishedKey("x")).Result(); err != nil || n != 1 {
		t.Errorf("database 2 of the master lacks the key that was written (%v)", err)
	}
	_, err := Open(context.Background(), "redis-sentinel://"+sentinel.Addr()+"?master=another")
	must.Say(t, err, "know no master")
}

func TestSentinelsWithPasswordsAndTLS(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	pair := ca.Issue("redis")
	master := testserver.StartSecureRedis(t, ca, pair, "--requirepass", "s3cret")
	sentinel := testserver.StartSentinel(t, testserver.SentinelConfig{
		Master: master.Addr(), Name: "m", Quorum: 1, Password: "t0p", MasterPassword: "s3cret", Authority: ca, Pair: pair,
	})
	files := "&ca=" + ca.File + "&cert=" + pair.Certificate + "&key=" + pair.Key
	url := func(redis, own string) string {
		return "rediss-sentinel://:" + redis + "@" + sentinel.Addr() + "?master=m&sentinel_password=" + own + files
	}
	mustOpen(t, url("s3cret", "t0p"))
	mustOpen(t, "rediss-sentinel://"+sentinel.Addr()+"?master=m&password_file="+writeFile(t, "s3cret")+"&sentinel_password_file="+writeFile(t, "t0p\n")+files)
	for url, says := range map[string]string{
		url("wr0ng", "t0p"):    "password_file=FILE",
		url("s3cret", "wr0ng"): "sentinel_password=",
		"rediss-sentinel://:s3cret@" + sentinel.Addr() + "?master=m&sentinel_password=t0p":     "ca=FILE",
		"redis-sentinel://:s3cret@" + sentinel.Addr() + "?master=m&sentinel_password=t0p":      "rediss",
		"redis-sentinel://:s3cret@" + sentinel.Addr() + "?master=m&sentinel_pasword_file=/t0p": "sentinel_pasword_file",
	} {
		_, err := Open(context.Background(), url)
		if err == nil {
			t.Errorf("%s is accepted", url)
			continue
		}
		if text := err.Error(); !strings.Contains(text, says) || strings.ContainsAny(text, "\n") ||
			strings.Contains(text, "wr0ng") || strings.Contains(text, "s3cret") || strings.Contains(text, "t0p") {
			t.Errorf("error %q, want one line that says %q and no password", text, says)
		}
	}
}

func TestSentinelURL(t *testing.T) {
	t.Parallel()
	s := must.Get(parseURL("rediss-sentinel://bob:s3cret@a,b:5,[::1]:7/4?master=m&sentinel_password=t0p"))(t)
	want := `redis "m" of the Sentinels a:26379, b:5, [::1]:7, database 4`
	if s.name != want {
		t.Errorf("name %q, want %q", s.name, want)
	}
}

func TestURLErrorsHoldNoPasswords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		":s3cret@h:6379", "user:s3cret@h", "redis//:s3cret@h", "http://:s3cret@h",
		"redis://:s3cret/x@h", "redis://:x/s3cret@h", "redis://:s3cret#x@h", "redis://:s3cret?x@h",
		"redis://:1/s3cret@h", "redis://:1?s3cret@h", "redis://:1#s3cret@h", "redis://:a@b/s3cret@h",
		"redis://:s3cret%zz@h", "redis://:%s3cret@h", "redis://:s3cret x@h:y",
		"redis-sentinel://:x/s3cret@h?master=m", "redis-sentinel://:s3cret%zz@h?master=m", "redis-sentinel://:1?s3cret@h",
		"redis-sentinel://:s3cret#@h?master=m",
	} {
		s, err := parseURL(text)
		if err == nil {
			t.Errorf("%q: taken for %s, want an error", text, s.name)
		} else if strings.Contains(err.Error(), "s3c") {
			t.Errorf("%q: the error shows the password: %v", text, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"redis://u:p@h:1/2?db=3", "rediss://h", "unix:///s?db=1", "redis-sentinel://a:1,b@c/1?master=m", "://", "redis-sentinel://%zz@?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseURL(text); err == nil && s.name == "" {
			t.Errorf("%q: no error and no name", text)
		}
	})
}

// openError is why a URL cannot be opened.
func openError(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := Open(ctx, url)
	if err == nil {
		_ = conn.Close()
		t.Fatalf("Open(%q) succeeded", url)
	}
	return err
}
