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
	"net/url"
	"os"
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

// Config reads the files. Without files it returns nil, which stands for the
// authorities of the machine.
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
