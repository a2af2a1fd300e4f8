package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"coalmine/internal/secrets"
	"coalmine/storage"
)

// Bucket reads objects of other programs. It needs only permission to read them,
// and to list them for List.
type Bucket struct {
	config Config
	client *minio.Client
}

// Object is one object at the time it was found.
type Object struct {
	Key  string
	Size int64 // in bytes
	// ETag distinguishes the object's content from a replacement.
	ETag string
}

// ParseObjectURL parses s3://bucket/key, with the parameters of ParseURL. The key
// may be empty or any key that S3 allows; escapes such as %20 are decoded.
func ParseObjectURL(raw string) (config Config, key string, err error) {
	config, path, err := parseURL("source", raw)
	if err != nil {
		return Config{}, "", err
	}
	if err := config.validate(); err != nil {
		return Config{}, "", fmt.Errorf("source URL for bucket %q: %w", config.Bucket, err)
	}
	return config, strings.TrimPrefix(path, "/"), nil
}

// NewBucket returns the bucket of a configuration, whose Prefix is ignored. It
// sends no request yet.
func NewBucket(config Config) (*Bucket, error) {
	transport, err := newTransport(config, silence)
	if err != nil {
		return nil, fmt.Errorf("source bucket %q: %w", config.Bucket, err)
	}
	client, err := newClient(config, transport, retries)
	if err != nil {
		return nil, err
	}
	return &Bucket{config, client}, nil
}

// URL returns the name of an object for messages.
func (b *Bucket) URL(key string) string { return "s3://" + b.config.Bucket + "/" + key }

// Stat describes one object. The error wraps storage.ErrNotFound if it is absent.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	// Not HEAD: its answer does not distinguish a missing key from a missing bucket.
	core := minio.Core{Client: b.client}
	body, info, _, err := core.GetObject(patient(ctx), b.config.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return Object{}, b.fail(ctx, key, err)
	}
	body.Close()
	return Object{Key: key, Size: info.Size, ETag: info.ETag}, nil
}

// List lists the objects whose key begins with prefix. Keys with a further slash
// are grouped: each group is an Object with only Key set, ending in the slash.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range list(patient(ctx), b.client, b.config.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
			if err != nil {
				yield(Object{}, b.fail(ctx, prefix, err))
				return
			}
			if !yield(Object{Key: o.Key, Size: o.Size, ETag: o.ETag}, nil) {
				return
			}
		}
	}
}

// Open reads a previously found object. An interrupted transfer resumes; it is an
// error if the object has changed or ends too early.
func (b *Bucket) Open(ctx context.Context, o Object) (io.ReadCloser, error) {
	if o.Size == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r := &reader{client: b.client, bucket: b.config.Bucket, key: o.Key, ctx: patient(ctx), etag: o.ETag, end: -1,
		fail: func(err error) error { return b.fail(ctx, o.Key, err) }}
	if err := r.open(); err != nil {
		return nil, r.fail(err)
	}
	return &wholeReader{r, o.Size}, nil
}

// wholeReader returns an error if an object has another size than expected.
type wholeReader struct {
	*reader
	size int64
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err == io.EOF && r.offset != r.size {
		return n, r.fail(fmt.Errorf("it ended after %d of %d bytes: put it there again, whole", r.offset, r.size))
	}
	return n, err
}

// fail explains the error of a request and its remedy.
func (b *Bucket) fail(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	url, endpoint := b.URL(key), b.client.EndpointURL()
	switch r := response(err); {
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("%s: %w: there is no bucket %q at %s; correct the name or the endpoint", url, storage.ErrNotFound, b.config.Bucket, endpoint)
	case isRefusal(err):
		return fmt.Errorf("%s: %s refuses to let it be read (%s); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or AWS_SHARED_CREDENTIALS_FILE, to keys that may read it", url, endpoint, r.Code)
	case r.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w at %s; correct the key, and end it with a slash if it is the beginning of several", url, storage.ErrNotFound, endpoint)
	case r.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: it changed while it was read; try again when no process writes to it", url)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the transfer from %s breaks off every time (%w); get the object by other means, or put it there again", url, endpoint, err)
	case secrets.ExplainCertificate(err) != nil:
		return fmt.Errorf("%s: S3 server %s: %w", url, endpoint, secrets.ExplainCertificate(err))
	case r.StatusCode == 0 && isNetwork(err):
		return fmt.Errorf("%s: no answer from %s; start the server or correct the endpoint: %w", url, endpoint, err)
	}
	return fmt.Errorf("%s: %w", url, explain(err))
}

func isNetwork(err error) bool {
	_, is := errors.AsType[net.Error](err)
	return is
}
