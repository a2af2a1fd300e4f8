package dashboards

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of a server. The zero value serves localhost, without tokens.
type Options struct {
	// Version of coalmine, for GET /api/v1/version.
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

	// OperatorToken permits everything, ReaderToken only reading. Each has at
	// least 16 bytes. Without an operator token every client may do everything,
	// which Serve allows only on localhost.
	OperatorToken, ReaderToken string
	// LoginCode logs a browser in as an operator, once: the page /login?code=...
	// turns it into a cookie. For an address that is printed where the operator
	// reads it. It has at least 16 bytes and needs an operator token.
	LoginCode string
	// Hosts are the names of the server, in addition to localhost and the local
	// address of a connection. They need an operator token.
	Hosts []string
	// ExternalURL is the address of the server behind a proxy: https://host or
	// https://host/path. Its host counts as one of Hosts; its path precedes all addresses,
	// whether or not the proxy strips it; and cookies are sent over TLS only if it begins
	// with https. Empty means that there is no proxy.
	ExternalURL string
	// CertificateFile and KeyFile, both PEM, turn on TLS.
	CertificateFile, KeyFile string
	// Insecure allows plain HTTP outside localhost, for a network that is
	// trusted or a proxy that speaks TLS.
	Insecure bool

	// MaxSourceBytes bounds an uploaded source; 0 means 64 GiB.
	MaxSourceBytes int64
	// TempDir holds uploads until their digest is checked; "" means the
	// system's.
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
	report(o.OperatorToken != "" && len(o.OperatorToken) < minToken, "the operator token is shorter than 16 bytes; use a longer one, at random")
	report(o.ReaderToken != "" && len(o.ReaderToken) < minToken, "the reader token is shorter than 16 bytes; use a longer one, at random")
	report(o.ReaderToken != "" && o.OperatorToken == "", "there is a reader token but no operator token; set both")
	report(o.ReaderToken != "" && o.ReaderToken == o.OperatorToken, "the reader token equals the operator token; use two")
	report(o.LoginCode != "" && len(o.LoginCode) < minToken, "the login code is shorter than 16 bytes; use a longer one, at random")
	report(o.LoginCode != "" && o.OperatorToken == "", "there is a login code but no operator token; set both")
	_, err := parseExternal(o.ExternalURL)
	if err != nil {
		errs = append(errs, err)
	}
	report((len(o.Hosts) > 0 || o.ExternalURL != "") && o.OperatorToken == "", "serving under other names than localhost needs an operator token")
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
		return fmt.Errorf("HTTP server on %s: an address outside localhost needs TLS (--tls-cert and --tls-key), or --insecure if plain HTTP is wanted", a)
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
	if o.MaxSourceBytes == 0 {
		o.MaxSourceBytes = defaultMaxSource
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
