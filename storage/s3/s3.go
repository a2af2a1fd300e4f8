// Package s3 stores objects on any server that implements the S3 protocol and supports
// "If-None-Match: *" on PUT; Open refuses a server that ignores the condition.
//
// Every object is sent in one request, never by multipart upload, so it appears completely or not
// at all. Whether a store survives a power cut depends on the server.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"coalmine/storage"
)

// Store is a storage.Store below a prefix of a bucket.
type Store struct {
	config Config
	// client repeats requests after a transient failure. once does not: this
	// package itself repeats requests with a body, each time with a new reader.
	client, once *minio.Client
}

// Open opens the store at a URL, see ParseURL, with the environment's credentials.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenConfig(ctx, config)
}

// OpenConfig opens a store and tests the operations that the contract needs. A
// missing bucket, wrong credentials or a server without create-if-absent give
// an error that wraps storage.ErrUnsuitable and states the remedy.
func OpenConfig(ctx context.Context, config Config) (*Store, error) {
	return openConfig(ctx, config, silence)
}

func openConfig(ctx context.Context, config Config, silence time.Duration) (*Store, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config}
	transport, err := newTransport(config, silence)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", storage.ErrUnsuitable, config.URL(), err)
	}
	if s.client, err = newClient(config, transport, retries); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnsuitable, err)
	}
	if s.once, err = newClient(config, transport, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnsuitable, err)
	}
	if err := s.probe(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// retries is the number of tries of a request: with the client's backoff (0.2 s
// doubling to 1 s, with jitter) about four seconds.
const retries = 10

func newClient(config Config, transport http.RoundTripper, tries int) (*minio.Client, error) {
	host, secure, err := config.host()
	if err != nil {
		return nil, err
	}
	creds, err := config.credentials()
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if config.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(host, &minio.Options{
		Creds:        creds,
		Secure:       secure,
		Transport:    &rereading{RoundTripper: transport, credentials: creds},
		Region:       config.region(),
		BucketLookup: lookup,
		MaxRetries:   tries,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config.URL(), err)
	}
	return client, nil
}

func (s *Store) String() string { return s.config.URL() }

func (s *Store) key(name string) string {
	if s.config.Prefix == "" {
		return name
	}
	return s.config.Prefix + "/" + name
}

func (s *Store) name(key string) string {
	return strings.TrimPrefix(key, s.key(""))
}

// fail describes an error of the server or of the connection to it.
func (s *Store) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &storage.ObjectError{Op: op, Name: name, Store: s.String(), Err: explain(err)}
}

// refuse describes a request that is not sent.
func (s *Store) refuse(op, name, format string, args ...any) error {
	return &storage.ObjectError{Op: op, Name: name, Store: s.String(), Err: fmt.Errorf(format, args...)}
}

// maxPut is the largest body of one S3 request, in bytes.
const maxPut = 5 << 30

// Put implements storage.Store. S3 does not distinguish durabilities.
func (s *Store) Put(ctx context.Context, name string, body io.ReadSeeker, _ storage.Durability) error {
	ctx, err := begin(ctx, storage.CheckName, name)
	if err != nil {
		return err
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return s.refuse("put", name, "the size of the data: %v", err)
	}
	if size > maxPut {
		return s.refuse("put", name, "%d bytes, S3 takes at most %d in one request: split the data into several files", size, int64(maxPut))
	}
	err = repeat(ctx, isPassing, func() error {
		reader, err := fresh(body, size)
		if err != nil {
			return err
		}
		return s.send(ctx, name, reader, size, minio.PutObjectOptions{})
	})
	return s.fail("put", name, err)
}

// Copy implements storage.Store: the server copies.
func (s *Store) Copy(ctx context.Context, from, to string, _ storage.Durability) error {
	ctx, err := begin(ctx, storage.CheckName, from, to)
	if err != nil {
		return err
	}
	_, err = s.client.CopyObject(ctx,
		minio.CopyDestOptions{Bucket: s.config.Bucket, Object: s.key(to)},
		minio.CopySrcOptions{Bucket: s.config.Bucket, Object: s.key(from)})
	return s.fail("copy", from, err)
}

// fresh returns a reader of the whole body. After a failed request, its connection may still be
// reading: if body supports it, every try has its own offset.
func fresh(body io.ReadSeeker, size int64) (io.Reader, error) {
	if at, ok := body.(io.ReaderAt); ok {
		return io.NewSectionReader(at, 0, size), nil
	}
	_, err := body.Seek(0, io.SeekStart)
	return body, err
}

func (s *Store) send(ctx context.Context, name string, body io.Reader, size int64, options minio.PutObjectOptions) error {
	options.ContentType = "application/octet-stream"
	options.DisableMultipart = true
	_, err := s.once.PutObject(ctx, s.config.Bucket, s.key(name), body, size, options)
	return err
}

// Create implements storage.Store. The request is repeated only after a conflict with another. A
// server's "412" is reported as storage.ErrExists; a proxy that repeats requests can hide that the
// caller's first one succeeded.
func (s *Store) Create(ctx context.Context, name string, data []byte) error {
	ctx, err := begin(ctx, storage.CheckName, name)
	if err != nil {
		return err
	}
	if len(data) > storage.MaxCreate {
		return s.refuse("create", name, "%d bytes, at most %d can be created at once", len(data), storage.MaxCreate)
	}
	options := minio.PutObjectOptions{}
	options.SetMatchETagExcept("*")
	// The server may be busy with another request for the same name.
	isConflict := func(err error) bool { return status(err) == http.StatusConflict }
	err = repeat(ctx, isConflict, func() error { return s.send(ctx, name, bytes.NewReader(data), int64(len(data)), options) })
	switch {
	case err == nil:
		return nil
	case isConflict(err) && ctx.Err() != nil:
		return ctx.Err()
	}
	return s.fail("create", name, createError(err))
}

// createError distinguishes a refused create from one with an unknown outcome.
func createError(err error) error {
	code := status(err)
	err = withoutURL(err)
	switch {
	case code == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", storage.ErrExists, err)
	case code == 0, isPassing(err):
		return fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	return err
}

func (s *Store) Head(ctx context.Context, name string) (storage.Info, error) {
	ctx, err := begin(ctx, storage.CheckName, name)
	if err != nil {
		return storage.Info{}, err
	}
	o, err := s.client.StatObject(ctx, s.config.Bucket, s.key(name), minio.StatObjectOptions{})
	if err != nil {
		return storage.Info{}, s.fail("head", name, err)
	}
	return storage.Info{Name: name, Size: o.Size, Modified: o.LastModified}, nil
}

func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		ctx, err := begin(ctx, storage.CheckPrefix, prefix)
		if err != nil {
			yield(storage.Info{}, err)
			return
		}
		options := minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}
		for o, err := range list(ctx, s.client, s.config.Bucket, options) {
			if err != nil {
				yield(storage.Info{}, s.fail("list", prefix, err))
				return
			}
			if !yield(storage.Info{Name: s.name(o.Key), Size: o.Size, Modified: o.LastModified}, nil) {
				return
			}
		}
	}
}

func (s *Store) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		children, err := s.children(ctx, dir)
		if err != nil {
			yield("", err)
			return
		}
		for _, child := range children {
			if !yield(child, nil) {
				return
			}
		}
	}
}

// children sorts after collecting, because a page of a listing has the objects
// first and the directories after them.
func (s *Store) children(ctx context.Context, dir string) ([]string, error) {
	ctx, err := begin(ctx, storage.CheckDir, dir)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		dir += "/"
	}
	var children []string
	options := minio.ListObjectsOptions{Prefix: s.key(dir)}
	for o, err := range list(ctx, s.client, s.config.Bucket, options) {
		if err != nil {
			return nil, s.fail("list", dir, err)
		}
		children = append(children, s.name(o.Key)[len(dir):])
	}
	slices.Sort(children)
	return children, nil
}

func (s *Store) Delete(ctx context.Context, names ...string) error {
	ctx, err := begin(ctx, storage.CheckName, names...)
	if err != nil {
		return err
	}
	if len(names) == 1 {
		err := s.client.RemoveObject(ctx, s.config.Bucket, s.key(names[0]), minio.RemoveObjectOptions{})
		if err == nil || errors.Is(explain(err), storage.ErrNotFound) {
			return nil
		}
		return s.fail("delete", names[0], err)
	}
	return s.deleteMany(ctx, names)
}

func (s *Store) deleteMany(ctx context.Context, names []string) error {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, name := range names {
			if !yield(minio.ObjectInfo{Key: s.key(name)}) {
				return
			}
		}
	}
	some := strings.Join(names[:min(3, len(names))], ", ")
	results, err := s.client.RemoveObjectsWithIter(ctx, s.config.Bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return s.fail("delete", some, err)
	}
	var failed error
	for r := range results {
		if r.Err != nil && !errors.Is(explain(r.Err), storage.ErrNotFound) && failed == nil {
			// A malformed answer names no object.
			failed = s.fail("delete", cmp.Or(s.name(r.ObjectName), some), r.Err)
		}
	}
	return failed
}

// begin returns the context of one operation, or an error if the caller's has
// ended or a name is invalid.
func begin(ctx context.Context, valid func(string) error, names ...string) (context.Context, error) {
	if err := storage.Check(ctx, valid, names...); err != nil {
		return nil, err
	}
	return patient(ctx), nil
}
