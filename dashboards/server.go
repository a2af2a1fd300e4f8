// Package dashboards serves runs over HTTP: to programs by a JSON API, with a Client that implements
// control.API, and to users by a page, which is built from folder page and embedded.
//
//	server, err := dashboards.NewServer(api, dashboards.Options{Version: "1.2"})
//	listener, err := net.Listen("tcp", "localhost:8080")
//	err = server.Serve(ctx, listener) // until ctx is done
//
//	client, err := dashboards.NewClient("http://localhost:8080", token)
//	status, err := client.Status(ctx, "") // the newest run
//
// Server, Client and the OpenAPI document are made from one table of operations
// (operations.go); docs/api.md lists the routes. Protections against intruders:
//
//   - Outside localhost there is no service without a token, nor without TLS
//     unless Options.Insecure is set.
//   - A request must name this server in its Host header, which defeats DNS rebinding.
//   - A foreign page cannot change anything: unsafe methods pass
//     http.CrossOriginProtection, with and without a token.
//   - Every body, header and wait has a limit.
//   - Pages run only their own scripts (Content-Security-Policy) and insert
//     all text as text.
package dashboards

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	s.checks = append([]Check{StoreCheck(api.HasSource)}, s.checks...)
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

// Serve answers requests until ctx is done, and then gives running requests up to ten seconds. It closes
// the listener, and may be called once. It returns an error for an address outside localhost without a
// token, or without TLS unless that is allowed.
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

// certificate is the server's certificate. It is read again when its file changes,
// so it may be renewed while the server runs.
type certificate struct {
	file, key string
	log       *slog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	modified time.Time // modification time of the file that was read
}

// get returns the certificate for a new connection. If a file cannot be read, or the key does not match
// because both are being replaced, it returns the previous certificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Stat(c.file); err == nil && !info.ModTime().Equal(c.modified) {
		if err := c.load(); err != nil {
			c.log.Warn("the renewed certificate cannot be used; keeping the previous one", "error", err)
		} else {
			c.log.Info("the certificate was renewed", "file", c.file)
		}
	}
	return c.pair, nil
}

func (c *certificate) load() error {
	info, err := os.Stat(c.file)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", c.file, err)
	}
	pair, err := tls.LoadX509KeyPair(c.file, c.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.file, c.key, err)
	}
	c.pair, c.modified = &pair, info.ModTime()
	return nil
}

// Options of a server. The zero value serves localhost, without tokens.
type Options struct {
	// Version is the version of coalmine, for GET /api/v1/version.
	Version string
	// Log receives failures and the actions of operators; nil discards them.
	Log *slog.Logger
	// Updated returns a channel that is closed when the status of some run has
	// changed, as coordinator.Coordinator does. The list of runs is then read
	// again; without Updated it is read every two seconds while it is watched.
	Updated func() <-chan struct{}
	// Metrics are served to Prometheus by GET /metrics; nil disables that.
	Metrics prometheus.Gatherer
	// Checks are the checks of GET /readyz, in addition to the store of the API.
	Checks []Check
	// Leads reports whether this process leads; nil if it coordinates nothing.
	Leads func() bool

	// OperatorToken permits everything, ReaderToken only reading. Each has at least 16 bytes. Without an
	// operator token every client may do everything, which Serve allows only on localhost.
	OperatorToken, ReaderToken string
	// LoginCode logs a browser in as an operator, once: the page /login?code=...
	// turns it into a cookie. It has at least 16 bytes and needs an operator token.
	LoginCode string
	// Hosts are the names of the server, in addition to localhost and the local
	// address of a connection. They need an operator token.
	Hosts []string
	// ExternalURL is the address of the server behind a proxy: https://host or https://host/path. Its
	// host counts as one of Hosts; its path precedes all addresses, whether or not the proxy strips it;
	// and cookies are sent over TLS only if it begins with https. Empty means that there is no proxy.
	ExternalURL string
	// CertificateFile and KeyFile, both PEM, turn on TLS.
	CertificateFile, KeyFile string
	// Insecure allows plain HTTP outside localhost, for a network that is
	// trusted or a proxy that speaks TLS.
	Insecure bool

	// MaxSourceBytes bounds an uploaded source; 0 means 64 GiB.
	MaxSourceBytes int64
	// TempDir holds uploads until their digest is checked; "" means the system's.
	TempDir string
}

const (
	defaultMaxSource = 64 << 30
	minToken         = 16
)

// check returns all mistakes in the options.
func (o *Options) check() error {
	var errs []error
	report := func(wrong bool, message string) {
		if wrong {
			errs = append(errs, errors.New(message))
		}
	}
	report(o.OperatorToken != "" && len(o.OperatorToken) < minToken, "the operator token is shorter than 16 bytes; use a longer random one")
	report(o.ReaderToken != "" && len(o.ReaderToken) < minToken, "the reader token is shorter than 16 bytes; use a longer random one")
	report(o.ReaderToken != "" && o.OperatorToken == "", "there is a reader token but no operator token; set both")
	report(o.ReaderToken != "" && o.ReaderToken == o.OperatorToken, "the reader token equals the operator token; use two different tokens")
	report(o.LoginCode != "" && len(o.LoginCode) < minToken, "the login code is shorter than 16 bytes; use a longer random one")
	report(o.LoginCode != "" && o.OperatorToken == "", "there is a login code but no operator token; set both")
	_, err := parseExternal(o.ExternalURL)
	if err != nil {
		errs = append(errs, err)
	}
	report((len(o.Hosts) > 0 || o.ExternalURL != "") && o.OperatorToken == "", "serving under names other than localhost needs an operator token")
	report((o.CertificateFile == "") != (o.KeyFile == ""), "TLS needs both a certificate file and a key file")
	report(o.MaxSourceBytes < 0, "the size limit of sources is negative")
	if len(errs) > 0 {
		return fmt.Errorf("HTTP server: %w", errors.Join(errs...))
	}
	return nil
}

// CheckAddress returns an error for an address beyond this machine without protection.
func (o *Options) CheckAddress(a net.Addr) error {
	if isLocal(a) {
		return nil
	}
	if o.OperatorToken == "" {
		return fmt.Errorf("HTTP server on %s: an address outside localhost needs a token (--token-file)", a)
	}
	if o.CertificateFile == "" && !o.Insecure {
		return fmt.Errorf("HTTP server on %s: an address outside localhost needs TLS (--tls-cert and --tls-key), or --insecure to allow plain HTTP", a)
	}
	return nil
}

// URL returns the address of a server with the options that listens on a.
func (o *Options) URL(a net.Addr) string {
	if o.ExternalURL != "" {
		return o.ExternalURL
	}
	if o.CertificateFile != "" {
		return "https://" + a.String()
	}
	return "http://" + a.String()
}

// isLocal reports whether only this machine can reach the address.
func isLocal(a net.Addr) bool {
	if a.Network() == "unix" {
		return true
	}
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (o *Options) complete() {
	o.MaxSourceBytes = cmp.Or(o.MaxSourceBytes, defaultMaxSource)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
