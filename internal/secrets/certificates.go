// These files configure TLS for clients: the trusted authorities, the client's certificate,
// and explanations of failed handshakes with remedies.
//
// The files are parameters in the URL of their server:
//
//	rediss://queue.example:6379/0?ca=/etc/ca.pem&cert=/etc/worker.pem&key=/etc/worker.key
//
//	files, err := secrets.TakeCertificateFiles(query) // and leaves the other parameters
//	config, err := files.Config()
//
// Without them a client trusts the authorities of its machine, or those of
// SSL_CERT_FILE, as all Go programs do.

package secrets

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// CertificateFiles are PEM files; empty ones are not used.
type CertificateFiles struct {
	// CA holds certificates of authorities that are trusted in addition to the machine's.
	CA string
	// Certificate and Key identify the client to a server that asks. They are read for every
	// connection, so that they may be renewed while a process runs.
	Certificate, Key string
}

// Names of the parameters of a URL.
const (
	caName          = "ca"
	certificateName = "cert"
	keyName         = "key"
)

// TakeCertificateFiles removes the parameters that name files from a query and returns them.
func TakeCertificateFiles(query url.Values) (CertificateFiles, error) {
	for _, name := range []string{caName, certificateName, keyName} {
		if values, given := query[name]; given && (len(values) != 1 || values[0] == "") {
			return CertificateFiles{}, fmt.Errorf("parameter %s: want the path of one PEM file", name)
		}
	}
	f := CertificateFiles{CA: query.Get(caName), Certificate: query.Get(certificateName), Key: query.Get(keyName)}
	NoteFile(f.Key)
	if (f.Certificate == "") != (f.Key == "") {
		return CertificateFiles{}, fmt.Errorf("a client certificate needs both parameters, %s=FILE and %s=FILE", certificateName, keyName)
	}
	query.Del(caName)
	query.Del(certificateName)
	query.Del(keyName)
	return f, nil
}

// Put adds the parameters to a query.
func (f CertificateFiles) Put(query url.Values) {
	for name, file := range map[string]string{caName: f.CA, certificateName: f.Certificate, keyName: f.Key} {
		if file != "" {
			query.Set(name, file)
		}
	}
}

// Config reads the files. Without files it returns nil, which stands for the authorities of the machine.
func (f CertificateFiles) Config() (*tls.Config, error) {
	if f == (CertificateFiles{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		roots, err := f.roots()
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	if f.Certificate != "" {
		if _, err := f.pair(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	}
	return config, nil
}

func (f CertificateFiles) roots() (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	data, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities (%s): %w", caName, err)
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("certificates of authorities (%s): %s holds none; expected PEM, which begins with -----BEGIN CERTIFICATE-----", caName, f.CA)
	}
	return roots, nil
}

func (f CertificateFiles) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("client certificate (%s and %s): %w", certificateName, keyName, err)
	}
	return &pair, nil
}

// ErrPlain reports certificate files for a connection without TLS.
var ErrPlain = errors.New("ca, cert and key are for TLS: begin the address with rediss:// or https://, or leave them out")

// ExplainCertificate explains why a client and a server fail to agree on TLS, with a remedy, for a
// message that has named the server. It wraps the cause, and returns nil for errors unrelated to TLS.
func ExplainCertificate(err error) error {
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("no authority that this machine trusts has signed its certificate%s: name the file with the certificate of its authority by ca=FILE in the URL, or by the variable SSL_CERT_FILE (%w)", signer(e.Cert), e)
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("its certificate is for %s, not for %s: use a name of the certificate in the URL, or give the server a certificate for this one (%w)", subjects(e.Certificate), e.Host, e)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return fmt.Errorf("%s (%w)", explainInvalid(e), e)
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("%s (%w)", plainServer, e)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%s (%w)", plainServer, http.ErrSchemeMismatch)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return fmt.Errorf("%s (%w)", explainAlert(e.Err.Error()), e)
	}
	return nil
}

const plainServer = "it does not speak TLS: begin the address with redis:// instead of rediss://, or http:// instead of https://, or turn on its TLS"

func signer(c *x509.Certificate) string {
	if c == nil || c.Issuer.String() == "" {
		return ""
	}
	return fmt.Sprintf(" (the signer is %q)", c.Issuer)
}

func subjects(c *x509.Certificate) string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	if len(hosts) == 0 {
		return "no host (it has no subjectAltName)"
	}
	return strings.Join(hosts, ", ")
}

func explainInvalid(e x509.CertificateInvalidError) string {
	const day = "2006-01-02 15:04 MST"
	switch now := time.Now(); {
	case e.Reason != x509.Expired:
		return "its certificate is of no use here: give the server another"
	case now.Before(e.Cert.NotBefore):
		return fmt.Sprintf("its certificate holds from %s only: set the clock of this machine, or renew the certificate", e.Cert.NotBefore.UTC().Format(day))
	default:
		return fmt.Sprintf("its certificate, or one that it rests on, has expired on %s: renew it (or set the clock of this machine)", e.Cert.NotAfter.UTC().Format(day))
	}
}

// explainAlert explains an alert of the peer. An alert has no Go type to identify it.
func explainAlert(alert string) string {
	switch alert = strings.TrimPrefix(alert, "tls: "); {
	case alert == "certificate required", alert == "handshake failure":
		return "it asks for a client certificate: name one by cert=FILE and key=FILE in the URL"
	case alert == "expired certificate":
		return "it refuses the client certificate, which has expired: renew the file that cert=FILE in the URL names"
	case strings.Contains(alert, "certificate"):
		return "it refuses the client certificate: name one by cert=FILE and key=FILE in the URL that an authority of the server has signed"
	case strings.HasPrefix(alert, "protocol version"):
		return "it offers no safe version of TLS: enable 1.2 or 1.3"
	}
	return "it ends the TLS handshake: see its log"
}
