package dashboards

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"coalmine/workflows/control"
)

// Limits of every connection. Uploads, downloads and event streams move their
// deadlines on as long as bytes flow.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 2 * time.Minute
	flowTimeout    = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	shutdownGrace  = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

// Server answers for one control.API.
type Server struct {
	api     control.API // nil for a monitor
	options Options
	access  *access
	// external is the address behind a proxy; page is the page with that address.
	external external
	page     []byte
	checks   []Check
	feeds    *feeds
	records  *semaphore.Weighted // of maxRecordBytes
	pace     pace
	handler  http.Handler
	document func() ([]byte, error) // of the API
	audience audience
	logged   struct { // times of the last log lines about failing checks, by name
		sync.Mutex
		at map[string]time.Time
	}
}

// NewServer returns a server. The error lists all mistakes in the options.
func NewServer(api control.API, o Options) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.api = api
	s.document = sync.OnceValues(func() ([]byte, error) { return document(s.endpoints()) })
	s.checks = append([]Check{s.storeCheck()}, s.checks...)
	s.handler = s.external.strip(s.recovering(s.guard(s.mux(append(s.routes(), s.monitorRoutes()...)))))
	return s, nil
}

func newServer(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.complete()
	s := &Server{options: o, access: newAccess(o), checks: o.Checks, feeds: newFeeds(o.Log), records: semaphore.NewWeighted(maxRecordBytes), pace: livePace}
	s.logged.at = make(map[string]time.Time)
	var err error
	if s.external, err = parseExternal(o.ExternalURL); err != nil {
		return nil, err
	}
	return s, s.loadPage()
}

// Serve answers requests until ctx is done, and then gives running requests up
// to ten seconds. It closes the listener, and may be called once. It returns an
// error for an address outside localhost without a token, or without TLS unless
// that is allowed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.feeds.close()
	listener, err := s.secure(l)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		_ = server.Close()
		return fmt.Errorf("HTTP server on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.feeds.close() // streams end by this, and Shutdown waits for them
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // cuts off the remaining requests
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("HTTP server on %s: %w", l.Addr(), err)
	}
	return nil
}

// secure checks the address and adds TLS if there is a certificate.
func (s *Server) secure(l net.Listener) (net.Listener, error) {
	if err := s.options.CheckAddress(l.Addr()); err != nil {
		return nil, err
	}
	if s.options.CertificateFile == "" {
		return l, nil
	}
	certificate := &certificate{file: s.options.CertificateFile, key: s.options.KeyFile, log: s.options.Log}
	if err := certificate.load(); err != nil {
		return nil, fmt.Errorf("HTTP server on %s: %w", l.Addr(), err)
	}
	return tls.NewListener(l, &tls.Config{
		GetCertificate: certificate.get,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
	}), nil
}
