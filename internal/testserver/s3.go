package testserver

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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
}

// StartS3 starts one.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	binary := Versitygw(t)
	s := &S3{
		server:    &server{t: t, name: "versitygw", ready: askS3},
		Bucket:    "coalmine",
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		Dir:       t.TempDir(),
	}
	// The gateway takes directories at the top for buckets.
	if err := os.Mkdir(filepath.Join(s.Dir, s.Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey}
	s.args = func(addr string) []string {
		// No --keep-alive: with it, a request refused before its body was read
		// leaves the rest of the body to be taken for the next request.
		return []string{"--port", addr, "--quiet", "posix", s.Dir}
	}
	s.start(binary)
	return s
}

// Endpoint is http://host:port.
func (s *S3) Endpoint() string { return "http://" + s.Addr() }

// URL is the address of a store under a prefix of the bucket, which may be empty.
func (s *S3) URL(prefix string) string {
	u := url.URL{
		Scheme:   "s3",
		Host:     s.Bucket,
		Path:     "/" + prefix,
		RawQuery: url.Values{"endpoint": {s.Endpoint()}}.Encode(),
	}
	return u.String()
}

// Env holds the credentials as environment variables, NAME=value.
func (s *S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// askS3 takes any HTTP answer for a sign of life: without keys it is a refusal.
func askS3(addr string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/")
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	return nil
}
