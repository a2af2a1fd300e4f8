package dashboards

import (
	"errors"
	"net/http"

	"coalmine/internal/goroutines"
)

// recovering answers requests after a panic of the handler, and logs the stack. An answer that
// has begun is cut off, so that it does not look complete.
func (s *Server) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &sent{ResponseWriter: w}
		err := goroutines.Recover(func() error { next.ServeHTTP(answer, r); return nil })
		p, panicked := errors.AsType[*goroutines.Panic](err)
		switch {
		case !panicked:
		case p.Value == http.ErrAbortHandler: // the handler has logged the reason
			panic(http.ErrAbortHandler)
		case answer.begun:
			goroutines.LogPanic(s.options.Log, err, "method", r.Method, "path", r.URL.Path)
			panic(http.ErrAbortHandler)
		default:
			w.Header().Del("Content-Length")
			s.answerError(w, r, err)
		}
	})
}

// sent records whether a part of the answer was sent.
type sent struct {
	http.ResponseWriter
	begun bool
}

func (a *sent) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *sent) Write(data []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (a *sent) Unwrap() http.ResponseWriter { return a.ResponseWriter }
