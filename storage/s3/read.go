package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/minio/minio-go/v7"

	"coalmine/storage"
)

// Get implements storage.Store. An interrupted transfer resumes.
func (s *Store) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	ctx, err := begin(ctx, storage.CheckName, name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, s.refuse("get", name, "offset %d is negative", offset)
	}
	if length == 0 { // HTTP has no empty ranges
		if _, err := s.Head(ctx, name); err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	r := &reader{client: s.client, bucket: s.config.Bucket, key: s.key(name), ctx: ctx, offset: offset, end: -1,
		fail: func(err error) error { return s.fail("get", name, err) }}
	if length > 0 {
		r.end = offset + length
	}
	if err := r.open(); err != nil {
		return nil, r.fail(err)
	}
	return r, nil
}

// list lists a part of a bucket. The last value is an error, if any, including
// that of the context; the client's iterator just stops when the context ends.
func list(ctx context.Context, client *minio.Client, bucket string, options minio.ListObjectsOptions) iter.Seq2[minio.ObjectInfo, error] {
	return func(yield func(minio.ObjectInfo, error) bool) {
		listing, cancel := context.WithCancelCause(ctx) // the client stops when this context ends
		defer cancel(nil)
		pages := &pass{listed: make(map[string]bool), cancel: cancel}
		for o := range client.ListObjectsIter(context.WithValue(listing, passKey{}, pages), bucket, options) {
			err := o.Err
			if pages.repeats {
				err = errRepeats
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
		switch {
		case pages.repeats:
			yield(minio.ObjectInfo{}, errRepeats)
		case ctx.Err() != nil:
			yield(minio.ObjectInfo{}, ctx.Err())
		}
	}
}

// pass is one pass over the pages of a listing, in order.
type pass struct {
	listed  map[string]bool // by the token of the page
	cancel  context.CancelCauseFunc
	repeats bool
}

type passKey struct{}

var errRepeats = errors.New("the server's list has no end: a continuation token repeats and leads back to an earlier page; report it to the makers of the server")

// begin ends the pass if the server returns to an earlier page.
func (p *pass) begin(r *http.Request) error {
	if !p.listed[r.URL.Query().Get(pageToken)] {
		return nil
	}
	p.repeats = true
	p.cancel(errRepeats) // otherwise the client would try again
	return errRepeats
}

// end records the arrival of a page.
func (p *pass) end(r *http.Request, answer *http.Response) {
	if answer != nil && answer.StatusCode == http.StatusOK {
		p.listed[r.URL.Query().Get(pageToken)] = true
	}
}

const pageToken = "continuation-token"

// reader reads a range of an object and resumes at its position if the connection breaks.
type reader struct {
	client *minio.Client
	bucket string
	key    string
	fail   func(error) error // describes the read
	ctx    context.Context
	etag   string // of the first answer, unless already known: all later parts must be of the same object
	offset int64
	end    int64 // -1: the end of the object
	body   io.ReadCloser
	// breaks counts interrupted transfers, and silences the consecutive ones
	// that stalled without a byte.
	breaks, silences int
}

func (r *reader) open() error {
	options := minio.GetObjectOptions{}
	if err := r.setRange(&options); err != nil {
		return err
	}
	if r.etag != "" {
		if err := options.SetMatchETag(r.etag); err != nil {
			return err
		}
	}
	core := minio.Core{Client: r.client}
	body, info, _, err := core.GetObject(r.ctx, r.bucket, r.key, options)
	if err != nil {
		return err
	}
	r.body, r.etag = body, info.ETag
	return nil
}

func (r *reader) setRange(options *minio.GetObjectOptions) error {
	switch {
	case r.end >= 0:
		return options.SetRange(r.offset, r.end-1)
	case r.offset > 0:
		return options.SetRange(r.offset, 0)
	}
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.offset += int64(n)
	if n > 0 {
		r.silences = 0
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	if isTimeout(err) {
		r.silences++
	}
	if r.breaks++; r.breaks >= retries || r.silences >= maxSilences || r.ctx.Err() != nil {
		return n, r.fail(err)
	}
	if r.offset == r.end {
		return n, io.EOF
	}
	r.body.Close()
	if err := r.open(); err != nil {
		return n, r.fail(err)
	}
	return n, nil
}

func (r *reader) Close() error { return r.body.Close() }
