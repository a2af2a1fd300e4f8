package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"coalmine/internal/secrets"
	"coalmine/storage"
)

// probes is the directory of test objects.
const probes = "probe/"

// probe creates an object, checks that it cannot be created again, reads it back and
// deletes it. The object is empty if the store is full, because the process that
// frees space has to open the store. A full server may close the connection before
// it has read the content, so that its answer is lost.
func (s *Store) probe(ctx context.Context) error {
	ctx = patient(ctx)
	name := probes + rand.Text()
	content := []byte(name)
	err := s.probeCreate(ctx, name, content)
	if errors.Is(err, storage.ErrFull) || isHangUp(err) {
		content = nil
		err = repeat(ctx, isHangUp, func() error { return s.probeCreate(ctx, name, content) })
	}
	if err != nil {
		return s.unsuitable(err)
	}
	err = s.probeRest(ctx, name, content)
	if deleteErr := s.Delete(ctx, name); err == nil {
		err = deleteErr
	}
	if err == nil {
		_ = s.removeLeftovers(ctx) // the next process removes the others
	}
	return s.unsuitable(err)
}

// leftoverAge is far longer than a probe takes.
const leftoverAge = 24 * time.Hour

// removeLeftovers deletes the objects of processes that were killed during a probe.
func (s *Store) removeLeftovers(ctx context.Context) error {
	var old []string
	for info, err := range s.List(ctx, probes) {
		if err != nil {
			return err
		}
		if time.Since(info.Modified) > leftoverAge {
			old = append(old, info.Name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return s.Delete(ctx, old...)
}

// probeCreate retries a transient failure, so that a starting server does not fail the probe.
func (s *Store) probeCreate(ctx context.Context, name string, content []byte) error {
	again := func(err error) bool { return isPassing(err) && !errors.Is(err, storage.ErrUnsuitable) }
	return repeat(ctx, again, func() error {
		err := s.Create(ctx, name, content)
		switch {
		case errors.Is(err, storage.ErrExists):
			return nil // the name is unique: an earlier try made the object
		case isHangUp(err) && s.expectsTLS(ctx):
			return fmt.Errorf("%w: %s: %s", storage.ErrUnsuitable, wrongScheme.cause, wrongScheme.remedy)
		}
		return err
	})
}

// expectsTLS reports whether the server of an http:// endpoint speaks TLS. It ends a plain request by
// closing the connection, as a full server does, sometimes only after seconds.
func (s *Store) expectsTLS(ctx context.Context) bool {
	endpoint := s.client.EndpointURL()
	if endpoint.Scheme != "http" {
		return false
	}
	conn, err := new(tls.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(endpoint.Hostname(), cmp.Or(endpoint.Port(), "80")))
	if err != nil {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return untrusted
	}
	conn.Close()
	return true
}

func (s *Store) probeRest(ctx context.Context, name string, content []byte) error {
	err := repeat(ctx, isHangUp, func() error { return s.Create(ctx, name, content) })
	if err == nil {
		return errors.New("the server ignores If-None-Match, so two workers could both believe that they committed a task; " +
			"use one that honours it (Amazon S3, versitygw, MinIO, Ceph 19 or newer)")
	}
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	r, err := s.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(data, content) {
		err = fmt.Errorf("an object just stored reads back as %q", data)
	}
	return err
}

// isHangUp reports whether the server accepted and then closed the connection. A full one may do so before it
// has read even an empty object. The form of the error depends on which side notices first.
func isHangUp(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}, func(end error) bool { return errors.Is(err, end) })
}

// unsuitable returns the error of a failed probe with its remedy. A missing answer
// does not make the store unsuitable: it may be available the next time.
func (s *Store) unsuitable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrFull) {
		return err
	}
	endpoint := s.client.EndpointURL()
	r := response(err)
	switch {
	case secrets.ExplainCertificate(err) != nil:
		return fmt.Errorf("%w: S3 server %s: %w", storage.ErrUnsuitable, endpoint, secrets.ExplainCertificate(err))
	case r.StatusCode == 0 && errors.Is(err, storage.ErrUnknown):
		return fmt.Errorf("no S3 server answers at %s: start it or correct the endpoint of --store (COALMINE_STORE_URL): %w", endpoint, err)
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("%w: bucket %q does not exist at %s: create it or correct --store (COALMINE_STORE_URL)",
			storage.ErrUnsuitable, s.config.Bucket, endpoint)
	case r.StatusCode != 0 && isRefusal(err):
		return fmt.Errorf("%w: %s refuses access to bucket %q (%s): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "+
			"(and AWS_SESSION_TOKEN), or AWS_SHARED_CREDENTIALS_FILE, to keys that may read and write it",
			storage.ErrUnsuitable, endpoint, s.config.Bucket, r.Code)
	case errors.Is(err, storage.ErrUnsuitable):
		return fmt.Errorf("bucket %q at %s: %w", s.config.Bucket, endpoint, err)
	}
	return fmt.Errorf("%w: bucket %q at %s: %w", storage.ErrUnsuitable, s.config.Bucket, endpoint, err)
}
