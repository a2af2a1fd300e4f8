package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"coalmine/internal/must"
)

// Authority signs certificates for one test. Only clients configured for it trust it.
type Authority struct {
	// File holds its certificate, as PEM.
	File string

	t           testing.TB
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Pair is a certificate and its key, each in a PEM file.
type Pair struct{ Certificate, Key string }

// NewAuthority makes an authority. Its files last as long as the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := a.template("authority of a test")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.key = a.newKey()
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))(t)
	a.certificate = must.Get(x509.ParseCertificate(der))(t)
	a.File = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// Issue signs a certificate for servers at 127.0.0.1 and localhost, and for
// clients, after applying changes.
func (a *Authority) Issue(name string, changes ...func(*x509.Certificate)) Pair {
	a.t.Helper()
	template := a.template(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, change := range changes {
		change(template)
	}
	key := a.newKey()
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))(a.t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(key))(a.t)
	return Pair{a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", secret)}
}

// Expired is a change for Issue: the certificate expired yesterday.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-24 * time.Hour) }

// ForHost returns a change for Issue: the certificate is only for another host.
func ForHost(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{name}, nil }
}

func (a *Authority) template(name string) *x509.Certificate {
	serial := must.Get(rand.Int(rand.Reader, big.NewInt(1<<62)))(a.t)
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-48 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	return key
}

func (a *Authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	must.Do(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// Nginx is a private nginx.
type Nginx struct{ *server }

// StartNginx starts nginx. servers returns its server blocks for a listening address. It
// skips the test if nginx is missing.
func StartNginx(t testing.TB, servers func(addr string) string) *Nginx {
	t.Helper()
	binary := find(t, "nginx", "COALMINE_NGINX", "install Debian's package nginx-light")
	dir := t.TempDir()
	n := &Nginx{&server{t: t, name: "nginx"}}
	n.ready = func(addr string) error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	n.args = func(addr string) []string {
		file := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(file, []byte(nginxConfig(dir, servers(addr))), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-p", dir, "-c", file, "-e", "stderr"}
	}
	n.start(binary)
	return n
}

// nginxConfig returns the configuration of a single process with all its files in a directory.
func nginxConfig(dir, servers string) string {
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	return fmt.Sprintf("daemon off;\nmaster_process off;\npid %s;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n",
		filepath.Join(dir, "pid"), temporary, servers)
}
