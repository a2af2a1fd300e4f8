package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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
	// Equals the output of json.Marshal for a sealed, without validating the record
	// again.
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
