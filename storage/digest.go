package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256. Its text form is 64 lower-case hex digits.
type Digest [sha256.Size]byte

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest { return sha256.Sum256(data) }

// ParseDigest parses the text form.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	return d, d.UnmarshalText([]byte(s))
}

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short returns the first 12 digits, for display.
func (d Digest) Short() string { return d.String()[:12] }

// IsZero reports whether the digest was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	var out Digest
	if len(text) != 2*len(out) {
		return fmt.Errorf("digest %.80q: want %d hex digits", text, 2*len(out))
	}
	if _, err := hex.Decode(out[:], text); err != nil {
		return fmt.Errorf("digest %q: %w", text, err)
	}
	*d = out
	return nil
}

// Key is the identity of a node: a hash of its kind, the kind's version, its
// parameters and the keys of its inputs. It holds no attempt, host, time or
// worker count, so equal nodes of different cells and runs are one node.
type Key struct{ Digest }

// ParseKey parses the text form of a key.
func ParseKey(s string) (Key, error) {
	d, err := ParseDigest(s)
	return Key{d}, err
}

// Compare orders keys by their bytes, which is the order of their text forms.
func (k Key) Compare(other Key) int { return bytes.Compare(k.Digest[:], other.Digest[:]) }
