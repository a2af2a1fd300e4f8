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

	"coalmine/internal/certificates"
	"coalmine/storage"
)

// Bucket reads objects that others have put there. It needs no more than the
// permission to read them, and to list them where List is used.
type Bucket struct {
	config Config
	client *minio.Client
}

// Object is one object as it was when it was found.
type Object struct {
	Key  string
	Size int64 // in bytes
	// ETag tells the object's content from what may replace it.
	ETag string
}

// ParseObjectURL reads s3://bucket/key, with the parameters of ParseURL. The
// key, which may be empty, is any that S3 allows; escapes such as %20 are undone.
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

// NewBucket reads from the bucket of a configuration, whose Prefix plays no
// part. It asks nothing yet.
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

// URL names an object in messages.
func (b *Bucket) URL(key string) string { return "s3://" + b.config.Bucket + "/" + key }

// Stat finds one object. One that is absent gives storage.ErrNotFound.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	// Not HEAD: its answer cannot say what is absent, the key or the bucket.
	core := minio.Core{Client: b.client}
	body, info, _, err := core.GetObject(patient(ctx), b.config.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return Object{}, b.fail(ctx, key, err)
	}
	body.Close()
	return Object{Key: key, Size: info.Size, ETag: info.ETag}, nil
}

// List finds the objects whose key begins with prefix. Those with a slash after
// it come once for all as an Object of which only Key is set, ending in the slash.
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

// Open reads an object that was found before. A transfer that breaks off goes on
// where it was; an object that is another by then, or ends too early, is an error.
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

// wholeReader makes sure that an object has as many bytes as it was found with.
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

// fail says of a request what the reader can change.
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
		return fmt.Errorf("%s: it changed while it was read; try again when nobody writes to it", url)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the transfer from %s breaks off every time (%w); get the object by other means, or put it there again", url, endpoint, err)
	case certificates.Explain(err) != nil:
		return fmt.Errorf("%s: S3 server %s: %w", url, endpoint, certificates.Explain(err))
	case r.StatusCode == 0 && isNetwork(err):
		return fmt.Errorf("%s: no answer from %s; start the server or correct the endpoint: %w", url, endpoint, err)
	}
	return fmt.Errorf("%s: %w", url, explain(err))
}

func isNetwork(err error) bool {
	_, is := errors.AsType[net.Error](err)
	return is
}
