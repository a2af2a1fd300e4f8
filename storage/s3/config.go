package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"coalmine/internal/secrets"
	"coalmine/storage"
)

// Config holds the address of a store and the credentials for it.
type Config struct {
	// Bucket must exist. Prefix, which may be empty, comes before every object
	// name; it has no slash at either end.
	Bucket, Prefix string
	// Endpoint is the server's URL, "http://host:port" or "https://host"; empty means Amazon's.
	Endpoint string
	// Region is the signing region; empty means AWS_REGION, AWS_DEFAULT_REGION or us-east-1.
	Region string
	// PathStyle puts the bucket into the path of requests instead of the host
	// name. Most servers other than Amazon's need it.
	PathStyle bool
	// TLS names the files of an https endpoint.
	TLS secrets.CertificateFiles
	// AccessKey, SecretKey and SessionToken are used if AccessKey is set; otherwise the
	// environment's: AWS_ACCESS_KEY_ID and its companions, then the file
	// AWS_SHARED_CREDENTIALS_FILE (by default ~/.aws/credentials), then the role of the service
	// account, container or machine. The last two are read again when they expire or are refused.
	AccessKey, SecretKey, SessionToken string
}

// parameters are the allowed query parameters of a store's URL.
var parameters = []string{"endpoint", "path-style", "region", "ca", "cert", "key"}

// ParseURL parses
// s3://bucket/prefix?endpoint=http://host:port&region=…&path-style=true. Without
// path-style, a store with an endpoint is addressed by path and one without by host
// name. ca, cert and key name files for TLS, see package secrets. A URL must not
// contain credentials.
func ParseURL(raw string) (Config, error) {
	c, path, err := parseURL("store", raw)
	if err != nil {
		return Config{}, err
	}
	c.Prefix = strings.Trim(path, "/")
	return c, c.validate()
}

const urlForm = "s3://bucket/path?endpoint=https://host:port"

// parseURL parses the URL of a store or of a source, and returns the path in the
// bucket separately, unchanged. Errors quote only the bucket and parameter names,
// because the other parts may contain secrets.
func parseURL(kind, raw string) (Config, string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error may quote misplaced credentials.
		return Config{}, "", fmt.Errorf("invalid %s URL: expected %s, with special characters escaped, such as %%20 for a space", kind, urlForm)
	}
	if u.User != nil {
		return Config{}, "", fmt.Errorf("%s URL for bucket %q holds credentials: take them out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", kind, u.Host)
	}
	if u.Scheme != "s3" || u.Host == "" {
		return Config{}, "", fmt.Errorf("%s URL: it names no bucket; want %s", kind, urlForm)
	}
	if u.Fragment != "" || strings.HasSuffix(raw, "#") {
		return Config{}, "", fmt.Errorf("%s URL for bucket %q holds a #, and the text after it would be lost: write # as %%23", kind, u.Host)
	}
	query := u.Query()
	for name, values := range query {
		if !slices.Contains(parameters, name) || len(values) != 1 {
			return Config{}, "", fmt.Errorf("%s URL for bucket %q: parameter %q: allowed are %s, each once", kind, u.Host, name, strings.Join(parameters, ", "))
		}
	}
	files, err := secrets.TakeCertificateFiles(query)
	if err != nil {
		return Config{}, "", fmt.Errorf("%s URL for bucket %q: %w", kind, u.Host, err)
	}
	c := Config{Bucket: u.Host, TLS: files, Endpoint: query.Get("endpoint"), Region: query.Get("region")}
	c.PathStyle = c.Endpoint != ""
	if style := query.Get("path-style"); style == "true" || style == "false" {
		c.PathStyle = style == "true"
	} else if style != "" {
		return Config{}, "", fmt.Errorf("%s URL for bucket %q: path-style: want true or false", kind, u.Host)
	}
	return c, u.Path, nil
}

func (c Config) validate() error {
	if err := storage.CheckDir(c.Prefix); err != nil {
		return fmt.Errorf("store prefix: %w", err)
	}
	if err := s3utils.CheckValidBucketName(c.Bucket); err != nil {
		return fmt.Errorf("store bucket %q: %w", c.Bucket, err)
	}
	_, secure, err := c.host()
	if err == nil && !secure && c.TLS != (secrets.CertificateFiles{}) {
		err = fmt.Errorf("store endpoint %s: %w", c.Endpoint, secrets.ErrPlain)
	}
	return err
}

func (c Config) host() (host string, secure bool, err error) {
	if c.Endpoint == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(c.Endpoint)
	more := err == nil && (u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "")
	if err != nil || more || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", false, errors.New("store endpoint: want http://host:port or https://host, without path, parameters or credentials")
	}
	return u.Host, u.Scheme == "https", nil
}

func (c Config) region() string {
	return cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
}

// URL returns the store's URL, without credentials. ParseURL parses it.
func (c Config) URL() string {
	query := url.Values{}
	if c.Endpoint != "" {
		query.Set("endpoint", c.Endpoint)
	}
	if c.Region != "" {
		query.Set("region", c.Region)
	}
	if byDefault := c.Endpoint != ""; c.PathStyle != byDefault {
		query.Set("path-style", fmt.Sprint(c.PathStyle))
	}
	c.TLS.Put(query)
	readable := strings.NewReplacer("%3A", ":", "%2F", "/").Replace(query.Encode()) // both are valid in a query
	u := url.URL{Scheme: "s3", Host: c.Bucket, Path: c.Prefix, RawQuery: readable}
	return u.String()
}
