package s3_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/s3"
)

func TestStoreOverTLS(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	server := testserver.StartSecureS3(t, ca, ca.Issue("s3"))
	s := openS3(t, server, server.URL("p"))
	if err := s.Create(t.Context(), "commits/x", []byte("x")); err != nil {
		t.Error(err)
	}
	if config, err := s3.ParseURL(s.String()); err != nil || config.TLS.CA != ca.File {
		t.Errorf("%s reads as %+v, %v", s, config, err)
	}
}

// startSecureFake asks for a client certificate of the authority.
func startSecureFake(t *testing.T, ca *testserver.Authority) *fakeServer {
	t.Helper()
	pem := must.Get(os.ReadFile(ca.File))(t)
	f := &fakeServer{objects: make(map[string][]byte)}
	f.Server = httptest.NewUnstartedServer(f)
	f.TLS = serverTLS(t, ca.Issue("fake"), pem)
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

func TestTLSErrorsNameRemedy(t *testing.T) {
	t.Parallel()
	ca, other := testserver.NewAuthority(t), testserver.NewAuthority(t)
	good := testserver.StartSecureS3(t, ca, ca.Issue("s3"))
	old := testserver.StartSecureS3(t, ca, ca.Issue("old", testserver.Expired))
	elsewhere := testserver.StartSecureS3(t, ca, ca.Issue("elsewhere", testserver.ForHost("store.example")))
	asking := startSecureFake(t, ca)
	plain := testserver.StartS3(t)
	me, stranger := ca.Issue("worker"), other.Issue("stranger")

	trust := secrets.CertificateFiles{CA: ca.File}
	for name, c := range map[string]struct {
		endpoint string
		files    secrets.CertificateFiles
		says     []string
	}{
		"no authority":        {good.Endpoint(), secrets.CertificateFiles{}, []string{good.Addr(), "authority of a test", "ca=FILE", "SSL_CERT_FILE"}},
		"another authority":   {good.Endpoint(), secrets.CertificateFiles{CA: other.File}, []string{"no authority that this machine trusts", "ca=FILE"}},
		"expired":             {old.Endpoint(), trust, []string{"expired on", "renew"}},
		"another host":        {elsewhere.Endpoint(), trust, []string{"store.example", "127.0.0.1", "in the URL"}},
		"no certificate":      {asking.URL, trust, []string{"asks for a client certificate", "cert=FILE and key=FILE"}},
		"another certificate": {asking.URL, secrets.CertificateFiles{CA: ca.File, Certificate: stranger.Certificate, Key: stranger.Key}, []string{"refuses the client certificate"}},
		"no TLS there":        {"https://" + plain.Addr(), trust, []string{plain.Addr(), "does not speak TLS", "http://"}},
		"no such file":        {good.Endpoint(), secrets.CertificateFiles{CA: ca.File + ".gone"}, []string{"ca", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := s3.Config{Bucket: "coalmine", Endpoint: c.endpoint, PathStyle: true, AccessKey: "key-of-test", SecretKey: "secret-of-test", TLS: c.files}
			_, err := s3.OpenConfig(t.Context(), config)
			wantUnsuitable(t, err, c.says...)
			if strings.Contains(err.Error(), "start it") {
				t.Errorf("the advice is of no use: %v", err)
			}
		})
	}

	_, err := s3.OpenConfig(t.Context(), s3.Config{Bucket: "coalmine", Endpoint: "http://" + good.Addr(), PathStyle: true, AccessKey: "key-of-test", SecretKey: "secret-of-test"})
	wantUnsuitable(t, err, "speaks TLS", "begin the endpoint with https://")

	config := s3.Config{Bucket: "bucket", Endpoint: asking.URL, PathStyle: true, AccessKey: "key-of-fake", SecretKey: "secret-of-fake",
		TLS: secrets.CertificateFiles{CA: ca.File, Certificate: me.Certificate, Key: me.Key}}
	if _, err := s3.OpenConfig(t.Context(), config); err != nil {
		t.Errorf("with a certificate of the server's authority: %v", err)
	}
}

// A certificate can expire while a run is at work: then the store is away.
func TestLaterTLSErrorIsReportedAsAway(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	pair := ca.Issue("s3")
	server := testserver.StartSecureS3(t, ca, pair)
	s := openS3(t, server, server.URL("p"))
	renewed := ca.Issue("renewed", testserver.Expired)
	for from, to := range map[string]string{renewed.Certificate: pair.Certificate, renewed.Key: pair.Key} {
		must.Do(t, os.Rename(from, to))
	}
	server.Restart()
	err := s.Create(t.Context(), "commits/x", []byte("x"))
	if !errors.Is(err, storage.ErrAway) || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("error %v, want one of a store in trouble that says why", err)
	}
}

func serverTLS(t *testing.T, pair testserver.Pair, clientCA []byte) *tls.Config {
	t.Helper()
	certificate := must.Get(tls.LoadX509KeyPair(pair.Certificate, pair.Key))(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(clientCA)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
}
