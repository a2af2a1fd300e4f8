package secrets_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/internal/testserver"
)

func TestCertificateFilesAreTakenFromQuery(t *testing.T) {
	t.Parallel()
	query := url.Values{"ca": {"/ca"}, "cert": {"/c"}, "key": {"/k"}, "db": {"3"}}
	files, err := secrets.TakeCertificateFiles(query)
	if want := (secrets.CertificateFiles{CA: "/ca", Certificate: "/c", Key: "/k"}); err != nil || files != want {
		t.Errorf("got %+v, %v, want %+v", files, err, want)
	}
	if query.Encode() != "db=3" {
		t.Errorf("left %s", query.Encode())
	}
	files.Put(query)
	if query.Encode() != "ca=%2Fca&cert=%2Fc&db=3&key=%2Fk" {
		t.Errorf("put back: %s", query.Encode())
	}
	for text, says := range map[string]string{"ca=": "path of one", "ca=a&ca=b": "path of one", "cert=a": "key=FILE", "key=a": "cert=FILE"} {
		query, _ := url.ParseQuery(text)
		_, err := secrets.TakeCertificateFiles(query)
		must.Say(t, err, says)
	}
	if config, err := (secrets.CertificateFiles{}).Config(); config != nil || err != nil {
		t.Errorf("no files: %v, %v, want none", config, err)
	}
}

// meet has a client and a server agree on TLS, and the client read; it returns the
// client's error.
func meet(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", server))(t)
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte("hello")) // after the handshake
			conn.Close()
		}
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", listener.Addr().String(), client.Clone())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.ReadFull(conn, make([]byte, 5))
	return err
}

func clientOf(t *testing.T, files secrets.CertificateFiles) *tls.Config {
	t.Helper()
	return must.Get(files.Config())(t)
}

func serverOf(t *testing.T, pair testserver.Pair, ca *testserver.Authority) *tls.Config {
	t.Helper()
	certificate := must.Get(tls.LoadX509KeyPair(pair.Certificate, pair.Key))(t)
	pem := must.Get(os.ReadFile(ca.File))(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestRenewedCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	server := serverOf(t, ca.Issue("server"), ca)
	pair := ca.Issue("client", testserver.Expired)
	client := clientOf(t, secrets.CertificateFiles{CA: ca.File, Certificate: pair.Certificate, Key: pair.Key})
	problem := secrets.ExplainCertificate(meet(t, client, server))
	must.Say(t, problem, "client certificate")
	if renewed := ca.Issue("client"); renewed != pair {
		t.Fatalf("the renewed certificate is in %v, want %v", renewed, pair)
	}
	if err := meet(t, client, server); err != nil {
		t.Errorf("a renewed one: %v", err)
	}
}

func TestExplainCertificateNamesFault(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	trusting := clientOf(t, secrets.CertificateFiles{CA: ca.File})
	anyone := func(change func(*x509.Certificate)) *tls.Config {
		config := serverOf(t, ca.Issue("server", change), ca)
		config.ClientAuth = tls.NoClientCert
		return config
	}
	early := anyone(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	clients := anyone(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	old := anyone(func(*x509.Certificate) {})
	old.MaxVersion = tls.VersionTLS11
	for _, c := range []struct {
		server *tls.Config
		says   string
	}{
		{early, "holds from"},
		{clients, "give the server another"},
		{anyone(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }), "no host"},
		{old, "1.2 or 1.3"},
		{serverOf(t, ca.Issue("asking"), ca), "asks for a client certificate"},
	} {
		problem := secrets.ExplainCertificate(meet(t, trusting, c.server))
		must.Say(t, problem, c.says)
	}
	for _, err := range []error{nil, io.EOF, errors.New("refused"), &net.OpError{Op: "dial", Err: io.EOF}} {
		if problem := secrets.ExplainCertificate(err); problem != nil {
			t.Errorf("%v has nothing to do with TLS: %v", err, problem)
		}
	}
}
