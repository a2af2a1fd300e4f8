package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
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

// meaningOf returns the meaning of an error: of its code, if the table has it, else of its
// status. Without an answer the server is away.
func meaningOf(err error) meaning {
	r := response(err)
	if known, ok := meanings[r.Code]; ok {
		return known
	}
	if r.StatusCode == 0 && r.Code == "" {
		return meaning{mark: storage.ErrAway, again: !errors.Is(err, errSilent) && certificates.Explain(err) == nil}
	}
	m := byStatus(r.StatusCode)
	if m == unexplained && strings.HasPrefix(r.Code, strconv.Itoa(r.StatusCode)) {
		return bare // the client puts the status in the place of a code
	}
	return m
}

// explain wraps the error of storage that says what a server's error means.
func explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errRepeats) {
		return withoutURL(err)
	}
	if problem := certificates.Explain(err); response(err).StatusCode == 0 && problem != nil {
		return fmt.Errorf("%w: %w", storage.ErrAway, problem)
	}
	m := meaningOf(err)
	err = withoutURL(err)
	switch {
	case m.mark == nil:
		return err
	case m.cause == "":
		return fmt.Errorf("%w: %w", m.mark, err)
	}
	return &storage.Trouble{Mark: m.mark, Cause: m.cause + inBrackets(response(err).Code), Remedy: m.remedy, Err: err}
}

// inBrackets names the code of an error.
func inBrackets(code string) string {
	if code == "" {
		return ""
	}
	return " (" + code + ")"
}

// withoutURL is the error of a request without its URL, which names the store and
// the object again.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

// isRefusal reports whether the server refuses the credentials.
func isRefusal(err error) bool { return meaningOf(err).keys }

// isPassing reports whether sending the same request again may help: no answer
// came, or one that says that the server is in trouble, or busy with another
// request in the same place, as versitygw's "Existing Object is a directory" does
// when a delete takes away the directory that a put has just made.
func isPassing(err error) bool { return meaningOf(err).again }

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
