package testserver

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// S3 is a private versitygw with a temporary directory, one bucket and its own
// keys.
type S3 struct {
	*server
	Bucket    string
	AccessKey string
	SecretKey string
	// Dir is the directory; its subdirectory Bucket holds the objects as files.
	Dir string
	// scheme of its endpoint, and the certificate file of the authority that
	// signed its certificate; "" without TLS.
	scheme, ca string
}

// StartS3 starts a server.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	return startS3(t, "http://", "")
}

// StartSecureS3 starts a server with TLS and a certificate of the authority.
func StartSecureS3(t testing.TB, a *Authority, pair Pair) *S3 {
	t.Helper()
	return startS3(t, "https://", a.File, "--cert", pair.Certificate, "--key", pair.Key)
}

func startS3(t testing.TB, scheme, ca string, options ...string) *S3 {
	t.Helper()
	binary := Versitygw(t)
	s := &S3{
		server:    &server{t: t, name: "versitygw"},
		Bucket:    "coalmine",
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		Dir:       t.TempDir(),
		scheme:    scheme,
		ca:        ca,
	}
	s.ready = func(addr string) error { return askS3(scheme + addr) }
	// The gateway treats top-level directories as buckets.
	if err := os.Mkdir(filepath.Join(s.Dir, s.Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey}
	s.args = func(addr string) []string {
		// Without --keep-alive: with it, the unread body of a refused request
		// would be parsed as the next request.
		return slices.Concat([]string{"--port", addr, "--quiet"}, options, []string{"posix", s.Dir})
	}
	s.start(binary)
	return s
}

// Endpoint returns http://host:port or https://host:port.
func (s *S3) Endpoint() string { return s.scheme + s.Addr() }

// URL returns the address of a store under a prefix of the bucket, which may be empty.
func (s *S3) URL(prefix string) string {
	query := url.Values{"endpoint": {s.Endpoint()}}
	if s.ca != "" {
		query.Set("ca", s.ca)
	}
	u := url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: query.Encode()}
	return u.String()
}

// Env returns the credentials as environment variables, NAME=value.
func (s *S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// askS3 accepts any HTTP answer as a sign of life: without keys it is a refusal.
// The test verifies the server's certificate.
func askS3(endpoint string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	resp, err := client.Get(endpoint + "/")
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	return nil
}
