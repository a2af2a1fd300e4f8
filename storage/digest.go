package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

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

// sealed is the stored form of a record whose integrity must be verified before
// use: a commit, an entry of a run log.
type sealed struct {
	SHA256 Digest          `json:"sha256"`
	Record json.RawMessage `json:"record"`
}

// seal encodes a record with its format and checksum. Fields are in the struct's order
// and maps are sorted, so equal records of one build are equal bytes.
func seal(f Format, record any) ([]byte, error) {
	raw, err := json.Marshal(record)
	if err == nil {
		raw, err = f.stamped(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("record cannot be encoded: %w", err)
	}
	// Equals the output of json.Marshal for a sealed, without validating the record again.
	return []byte(`{"sha256":"` + DigestOf(raw).String() + `","record":` + string(raw) + `}`), nil
}

// unseal checks a record and decodes it. A torn or damaged record gives an error that
// wraps ErrCorrupt, a newer format one that wraps ErrNewer.
func unseal(f Format, data []byte, into any) error {
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%w: torn record of %d bytes: %w", ErrCorrupt, len(data), err)
	}
	if got := DigestOf(s.Record); got != s.SHA256 {
		return fmt.Errorf("%w: record has checksum %s, its bytes have %s", ErrCorrupt, s.SHA256.Short(), got.Short())
	}
	stamp, record := unstamped(s.Record)
	if err := f.Check(stamp); err != nil {
		return err
	}
	if err := json.Unmarshal(record, into); err != nil {
		return fmt.Errorf("%s of another format: %w", f.Name, err)
	}
	return nil
}

// sameRecord reports whether two sealed records are equal apart from their stamps.
func sameRecord(f Format, a, b []byte) bool {
	var one, other json.RawMessage
	return unseal(f, a, &one) == nil && unseal(f, b, &other) == nil && bytes.Equal(one, other)
}
