package dashboards

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"coalmine/internal/goroutines"
	"coalmine/storage"
)

// Check is a check of a service that the process needs.
type Check struct {
	// Name is the displayed name: "the store", "Redis".
	Name string
	// Ask returns the reason why it does not answer, nil if it does.
	Ask func(context.Context) error
}

// NewMonitor returns a server for a process that serves only its health over HTTP: metrics for
// Prometheus, and the probes. Its access rules are those of NewServer.
func NewMonitor(o Options) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.handler = s.external.strip(s.recovering(s.guard(s.mux(s.monitorRoutes()))))
	return s, nil
}

// monitorRoutes returns the routes of every server.
func (s *Server) monitorRoutes() []route {
	routes := []route{
		{"GET " + healthPath, nobody, s.healthy},
		{"GET " + readyPath, nobody, s.ready},
	}
	if s.options.Metrics != nil {
		routes = append(routes, route{"GET " + metricsPath, reader, s.metrics()})
	}
	return routes
}

// metrics answers Prometheus.
func (s *Server) metrics() handler {
	exposition := promhttp.HandlerFor(s.options.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelError),
	})
	return func(w http.ResponseWriter, r *http.Request) error {
		exposition.ServeHTTP(w, r)
		return nil
	}
}

// readiness is the answer to the probes.
type readiness struct {
	Status string `json:"status"`
	// Leading is set by coordinators: whether this one leads or stands by. Both are ready.
	Leading *bool `json:"leading,omitempty"`
}

func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, readiness{Status: "ok"})
	return nil
}

// readyTimeout bounds all checks of a probe.
const readyTimeout = 5 * time.Second

// ready checks the services that the process needs. The answer names the cause of a failure, if
// it is known; only the log has the whole error, because a request needs no token.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if missing := s.missing(r.Context()); len(missing) > 0 {
		writeError(w, errorKind{kind: "not-ready", status: http.StatusServiceUnavailable},
			strings.Join(missing, ", ")+"; see the log of this process")
		return nil
	}
	answer := readiness{Status: "ok"}
	if s.options.Leads != nil {
		leads := s.options.Leads()
		answer.Leading = &leads
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// missing describes the failing checks, each with its cause if that is known. They run
// concurrently: a hanging check takes no time from other checks.
func (s *Server) missing(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	errs := make([]error, len(s.checks))
	var asked sync.WaitGroup
	for i, c := range s.checks {
		asked.Go(func() {
			errs[i] = goroutines.Recover(func() error { return c.Ask(ctx) })
			goroutines.LogPanic(s.options.Log, errs[i], "asking", c.Name)
		})
	}
	asked.Wait()
	var missing []string
	for i, c := range s.checks {
		if errs[i] != nil {
			missing = append(missing, brief(c.Name, errs[i]))
			s.notReady(c.Name, errs[i])
		}
	}
	return missing
}

// brief describes a failed check without addresses and messages of other servers, which are
// only for the log.
func brief(name string, err error) string {
	var cause interface {
		error
		Brief() string
	}
	switch {
	case errors.As(err, &cause):
		return name + ": " + cause.Brief()
	case errors.Is(err, storage.ErrFull):
		return name + ": " + storage.ErrFull.Error()
	}
	return "no answer from " + name
}

// notReadyEvery is the pause between log lines about the same failing check: probes come every
// few seconds.
const notReadyEvery = time.Minute

func (s *Server) notReady(name string, err error) {
	s.logged.Lock()
	defer s.logged.Unlock()
	if time.Since(s.logged.at[name]) < notReadyEvery {
		return
	}
	s.logged.at[name] = time.Now()
	s.options.Log.Warn("not ready", slog.String("missing", name), slog.Any("error", err))
}

// StoreCheck sends any request to the store.
func StoreCheck(hasSource func(context.Context, storage.Digest) (bool, error)) Check {
	return Check{"the store", func(ctx context.Context) error {
		_, err := hasSource(ctx, storage.Digest{})
		return err
	}}
}
