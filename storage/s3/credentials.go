package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// credentials returns the configured credentials, or the first found in the environment, the
// shared credentials file and Amazon's identity services.
func (c Config) credentials() (*credentials.Credentials, error) {
	if c.AccessKey != "" {
		return credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken), nil
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if c.hasIdentityService() {
		providers = append(providers, &credentials.IAM{Client: &http.Client{Timeout: metadataTimeout}, Region: c.region()})
	}
	found := credentials.New(&finder{providers: providers})
	if _, err := found.GetWithContext(nil); err != nil {
		return nil, fmt.Errorf("%s: %w", c.URL(), err)
	}
	return found, nil
}

// metadataTimeout limits one request to an identity service.
const metadataTimeout = 5 * time.Second

// hasIdentityService reports whether the environment of the process may supply credentials: the
// role of a Kubernetes service account, of a container, or of an Amazon machine. The last is
// queried only for Amazon's own endpoint: other machines do not answer.
func (c Config) hasIdentityService() bool {
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	host, _, err := c.host()
	amazon := strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
	return err == nil && amazon && !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true")
}

// finder uses the credentials of the first provider that has any. If none has, it fails, so that
// no request is sent unsigned while a file is being replaced.
type finder struct {
	providers []credentials.Provider
	current   credentials.Provider
}

var errNoCredentials = errors.New("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE")

func (f *finder) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var last error
	for _, p := range f.providers {
		value, err := p.RetrieveWithCredContext(cc)
		if value.AccessKeyID != "" && value.SecretAccessKey != "" {
			f.current = p
			return value, nil
		}
		if _, identity := p.(*credentials.IAM); identity && err != nil {
			last = fmt.Errorf("%w, or repair the identity service of this machine: %w", errNoCredentials, err)
		}
	}
	return credentials.Value{}, cmp.Or(last, errNoCredentials)
}

func (f *finder) Retrieve() (credentials.Value, error) { return f.RetrieveWithCredContext(nil) }

func (f *finder) IsExpired() bool { return f.current == nil || f.current.IsExpired() }

// rereading reads the credentials again when the server refuses a request, at most once a
// second, so that the next try uses new ones.
type rereading struct {
	http.RoundTripper
	credentials *credentials.Credentials
	mu          sync.Mutex
	last        time.Time
}

const rereadEvery = time.Second

func (r *rereading) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil {
		switch response.StatusCode {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
			r.reread()
		}
	}
	return response, err
}

func (r *rereading) reread() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.last) >= rereadEvery {
		r.last = time.Now()
		r.credentials.Expire()
	}
}
