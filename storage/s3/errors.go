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

	"coalmine/internal/goroutines"
	"coalmine/internal/secrets"
	"coalmine/storage"
)

// response returns the server's answer inside an error; zero if there was none.
func response(err error) minio.ErrorResponse {
	r, _ := errors.AsType[minio.ErrorResponse](err)
	return r
}

// status returns the HTTP status inside an error, 0 without an answer.
func status(err error) int { return response(err).StatusCode }

// meaningOf returns the meaning of an error by its code if the table has it, otherwise by
// its status. Without an answer the server counts as unavailable.
func meaningOf(err error) meaning {
	r := response(err)
	if isLocked(r.Message) {
		return locked
	}
	if known, ok := meanings[r.Code]; ok {
		return known
	}
	if r.StatusCode == 0 && r.Code == "" {
		return meaning{mark: storage.ErrAway, again: !errors.Is(err, errSilent) && secrets.ExplainCertificate(err) == nil}
	}
	m := byStatus(r.StatusCode)
	if m == unexplained && strings.HasPrefix(r.Code, strconv.Itoa(r.StatusCode)) {
		return bare // the client uses the status as the code
	}
	return m
}

// isLocked reports whether object lock is the cause in a message, which servers send with the codes AccessDenied and
// InvalidRequest.
func isLocked(message string) bool {
	return strings.Contains(message, "WORM") || strings.Contains(strings.ToLower(message), "object lock")
}

// explain wraps the storage error that a server's error means.
func explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errRepeats) {
		return withoutURL(err)
	}
	if problem := secrets.ExplainCertificate(err); response(err).StatusCode == 0 && problem != nil {
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
	return &storage.KnownError{Mark: m.mark, Cause: m.cause + inBrackets(response(err).Code), Remedy: m.remedy, Err: err}
}

func inBrackets(code string) string {
	if code == "" {
		return ""
	}
	return " (" + code + ")"
}

// withoutURL removes the URL from the error of a request, because the caller
// names the store and the object.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

// isRefusal reports whether the server refuses the credentials.
func isRefusal(err error) bool { return meaningOf(err).keys }

// isPassing reports whether repeating the request may help: there was no answer, or the server
// reports its own fault or a conflict with another request, such as versitygw's "Existing Object is
// a directory" when a delete removes the directory that a put has just made.
func isPassing(err error) bool { return meaningOf(err).again }

// repeat calls do until it succeeds, fails with an error for which again is false, or reaches the limit of
// tries. The pauses between them are 50 ms doubling to 1 s, half of it random, so that many workers do not
// retry at once.
func repeat(ctx context.Context, again func(error) bool, do func() error) error {
	var err error
	for try := range retries {
		if err = do(); err == nil || !again(err) {
			return err
		}
		longest := min(50*time.Millisecond<<try, time.Second)
		if goroutines.Sleep(ctx, longest/2+rand.N(longest/2)) != nil {
			return err
		}
	}
	return err
}
