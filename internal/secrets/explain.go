package secrets

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ExplainCertificate explains why a client and a server fail to agree on TLS, with a
// remedy, for a message that has named the server. It wraps the cause, and returns nil
// for errors unrelated to TLS.
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

const plainServer = "it does not speak TLS: begin the address with redis:// in place of rediss://, or http:// in place of https://, or turn TLS on there"

func signer(c *x509.Certificate) string {
	if c == nil || c.Issuer.String() == "" {
		return ""
	}
	return fmt.Sprintf(" (the signer is %q)", c.Issuer)
}

// subjects returns the hosts of a certificate.
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

// explainAlert explains an alert of the peer. An alert has no Go type to
// identify it.
func explainAlert(alert string) string {
	switch alert = strings.TrimPrefix(alert, "tls: "); {
	case alert == "certificate required", alert == "handshake failure":
		return "it asks for a client certificate: name one by cert=FILE and key=FILE in the URL"
	case alert == "expired certificate":
		return "it refuses the client certificate, which has expired: renew the file that cert=FILE in the URL names"
	case strings.Contains(alert, "certificate"):
		return "it refuses the client certificate: name one by cert=FILE and key=FILE in the URL that an authority of the server has signed"
	case strings.HasPrefix(alert, "protocol version"):
		return "it offers no version of TLS that is safe: have it speak 1.2 or 1.3"
	}
	return "it ends the attempt to agree on TLS: its log says why"
}
