package dashboards

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is the server's certificate. It is read again when its file changes,
// so it may be renewed while the server runs.
type certificate struct {
	file, key string
	log       *slog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	modified time.Time // modification time of the file that was read
}

// get returns the certificate for a new connection. If a file cannot be read, or
// the key does not match because both are being replaced, it returns the
// previous certificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Stat(c.file); err == nil && !info.ModTime().Equal(c.modified) {
		if err := c.load(); err != nil {
			c.log.Warn("the renewed certificate cannot be used; the one before stays", "error", err)
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
