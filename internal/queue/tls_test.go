package queue

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"coalmine/internal/testserver"
)

func TestOpenOverTLS(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	server := testserver.StartSecureRedis(t, ca, ca.Issue("redis"))
	client := ca.Issue("worker")
	conn := mustOpen(t, server.URL()+"&cert="+client.Certificate+"&key="+client.Key)
	if err := conn.Broker().Publish(context.Background(), "x", []byte("y"), time.Minute); err != nil {
		t.Error(err)
	}
}

func TestTLSErrorsNameRemedy(t *testing.T) {
	t.Parallel()
	ca, other := testserver.NewAuthority(t), testserver.NewAuthority(t)
	client := ca.Issue("worker")
	me := "&cert=" + client.Certificate + "&key=" + client.Key
	stranger := other.Issue("stranger")
	good := testserver.StartSecureRedis(t, ca, ca.Issue("redis"))
	old := testserver.StartSecureRedis(t, ca, ca.Issue("old", testserver.Expired))
	elsewhere := testserver.StartSecureRedis(t, ca, ca.Issue("elsewhere", testserver.ForHost("queue.example")))
	plain := startRedis(t)
	_, port, _ := net.SplitHostPort(good.Addr())

	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"no authority":        {"rediss://" + good.Addr(), []string{good.Addr(), "authority of a test", "ca=FILE", "SSL_CERT_FILE"}},
		"another authority":   {"rediss://" + good.Addr() + "?ca=" + other.File + me, []string{"no authority that this machine trusts", "ca=FILE"}},
		"expired":             {old.URL() + me, []string{"expired on", "renew"}},
		"another host":        {elsewhere.URL() + me, []string{"queue.example", "127.0.0.1", "in the URL"}},
		"no certificate":      {good.URL(), []string{"asks for a client certificate", "cert=FILE and key=FILE"}},
		"another certificate": {good.URL() + "&cert=" + stranger.Certificate + "&key=" + stranger.Key, []string{"refuses the client certificate", "cert=FILE"}},
		"no TLS there":        {"rediss://" + plain.Addr() + "?ca=" + ca.File, []string{plain.Addr(), "does not speak TLS", "redis://", "rediss://"}},
		"no TLS here":         {"redis://localhost:" + port, []string{"rediss:"}},
		"files without TLS":   {"redis://localhost?ca=" + ca.File, []string{"rediss://"}},
		"no such file":        {"rediss://localhost?ca=" + ca.File + ".gone", []string{"ca", ".gone", "no such file"}},
		"no certificate file": {"rediss://localhost?ca=" + client.Key, []string{"holds none", "BEGIN CERTIFICATE"}},
		"whoever answers":     {good.URL() + me + "&skip_verify=true", []string{"skip_verify", "ca=FILE"}},
		"half a pair":         {good.URL() + "&cert=" + client.Certificate, []string{"key=FILE"}},
		"two halves":          {good.URL() + "&cert=" + client.Certificate + "&key=" + stranger.Key, []string{"client certificate", "match"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := openError(t, c.url)
			if strings.Contains(err.Error(), "start redis-server") || strings.Contains(err.Error(), "\n") {
				t.Errorf("the advice is of no use: %v", err)
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("error %q does not say %q", err, words)
				}
			}
		})
	}
}

func TestPasswordsInURLsAreDetected(t *testing.T) {
	t.Parallel()
	for url, shows := range map[string]bool{
		"redis://h:1/2": false, "redis://user@h:1": false, "redis-sentinel://a:1,b:2/0?master=m&sentinel_password_file=/f": false,
		"redis://:p@h": true, "rediss://u:p@h:1/2?ca=/x": true, "redis-sentinel://:p@a:1,b:2/0?master=m": true,
		"redis-sentinel://a:1,b:2/0?master=m&sentinel_password=p": true, "unix://:p@/s": true,
	} {
		if ShowsPassword(url) != shows {
			t.Errorf("%s: shows a password: %v", url, !shows)
		}
	}
}

func TestPasswordsComeFromFiles(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	lock(t, server, "s3cret")
	path := writeFile(t, "s3cret\n")
	mustOpen(t, server.URL()+"?password_file="+path)
	for url, says := range map[string]string{
		server.URL() + "?password_file=" + path + ".gone":                "no such file",
		server.URL() + "?password_file=" + writeFile(t, "\n"):            "holds no password",
		server.URL() + "?password_file=" + writeFile(t, "s3cret\nx"):     "holds no password",
		"redis://:s3cret@" + server.Addr() + "?password_file=" + path:    "leave one of them out",
		server.URL() + "?password_file=" + writeFile(t, "an s3cret one"): "password_file=FILE",
	} {
		_, err := Open(context.Background(), url)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one that says %q and no password", url, err, says)
		}
	}
}
