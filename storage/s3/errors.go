package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"

	"coalmine/internal/certificates"
	"coalmine/internal/sleep"
	"coalmine/storage"
)

// response is the server's answer inside an error; zero if there was none.
func response(err error) minio.ErrorResponse {
	r, _ := errors.AsType[minio.ErrorResponse](err)
	return r
}

// status is the HTTP status inside an error, 0 if no answer came.
func status(err error) int { return response(err).StatusCode }

// explain wraps the error of storage that says what a server's error means.
func explain(err error) error {
	if err == nil {
		return nil
	}
	r := response(err)
	err = withoutURL(err)
	switch r.Code {
	case "NoSuchBucket":
		return fmt.Errorf("%w: the bucket does not exist: %w", storage.ErrUnsuitable, err)
	case "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientCapacity":
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	case "NoSuchKey": // the client also says so of a 404 without a body
		return fmt.Errorf("%w: %w", storage.ErrNotFound, err)
	}
	switch {
	case r.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	case errors.Is(err, context.Canceled):
		return err
	case r.StatusCode == 0 && certificates.Explain(err) != nil:
		return fmt.Errorf("%w: %w", storage.ErrAway, certificates.Explain(err))
	case r.StatusCode == 0, isTransient(r.StatusCode), isRefusal(err):
		return fmt.Errorf("%w: %w", storage.ErrAway, err)
	}
	return err
}

// withoutURL is the error of a request without its URL, which names the store and
// the object again.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

// isTransient reports whether a status says that the server is in trouble.
func isTransient(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

// isRefusal reports whether the server does not accept who asks. An unknown
// access key has status 404 with some servers.
func isRefusal(err error) bool {
	r := response(err)
	return r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized ||
		r.Code == "InvalidAccessKeyId" || r.Code == "XAdminUserNotFound"
}

// isPassing reports whether sending the same request again may help: no answer
// came, or one that says that the server is in trouble, or busy with another
// request in the same place, as versitygw's "Existing Object is a directory" does
// when a delete takes away the directory that a put has just made.
func isPassing(err error) bool {
	if errors.Is(explain(err), storage.ErrFull) || errors.Is(err, errSilent) || certificates.Explain(err) != nil {
		return false
	}
	code := status(err)
	return code == 0 || code == http.StatusConflict || isTransient(code)
}

// repeat calls do until it succeeds, fails for good, or has failed often enough.
func repeat(ctx context.Context, do func() error) error {
	var err error
	for try := range retries {
		if err = do(); err == nil || !isPassing(err) {
			return err
		}
		if backoff(ctx, try) != nil {
			return err
		}
	}
	return err
}

// backoff waits between tries: 50 ms doubling to 1 s, of which half is random,
// so that many workers do not come back at once.
func backoff(ctx context.Context, try int) error {
	longest := min(50*time.Millisecond<<try, time.Second)
	return sleep.For(ctx, longest/2+rand.N(longest/2))
}
