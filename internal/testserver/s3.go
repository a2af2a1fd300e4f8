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

// S3 is a private versitygw over a temporary directory, with one bucket and keys
// of its own.
type S3 struct {
	*server
	Bucket    string
	AccessKey string
	SecretKey string
	// Dir is the directory whose subdirectory Bucket holds the objects as files.
	Dir string
	// scheme of its endpoint, and the file of the authority that has signed its
	// certificate; "" without TLS.
	scheme, ca string
}

// StartS3 starts one.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	return startS3(t, "http://", "")
}

// StartSecureS3 starts one that speaks TLS by a certificate of the authority.
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
	// The gateway takes directories at the top for buckets.
	if err := os.Mkdir(filepath.Join(s.Dir, s.Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey}
	s.args = func(addr string) []string {
		// No --keep-alive: with it, a request refused before its body was read
		// leaves the rest of the body to be taken for the next request.
		return slices.Concat([]string{"--port", addr, "--quiet"}, options, []string{"posix", s.Dir})
	}
	s.start(binary)
	return s
}

// Endpoint is http://host:port or https://host:port.
func (s *S3) Endpoint() string { return s.scheme + s.Addr() }

// URL is the address of a store under a prefix of the bucket, which may be empty.
func (s *S3) URL(prefix string) string {
	query := url.Values{"endpoint": {s.Endpoint()}}
	if s.ca != "" {
		query.Set("ca", s.ca)
	}
	u := url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: query.Encode()}
	return u.String()
}

// Env holds the credentials as environment variables, NAME=value.
func (s *S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// askS3 takes any HTTP answer for a sign of life: without keys it is a refusal.
// Whether its certificate is good is up to the test.
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
