package storage

import (
	"encoding/json"
	"time"
)

// Commit is the small record that makes a node done. It is created once, if
// absent, after all its blobs are stored, and carries its own checksum.
type Commit struct {
	Key         Key    `json:"key"`
	Kind        string `json:"kind"`
	KindVersion int    `json:"kind_version"`
	// Attempt tells the execution that won from the ones that lost.
	Attempt string `json:"attempt"`
	// Blobs are the outputs, ordered by name; names are unique.
	Blobs []Blob `json:"blobs"`
	// Metrics are small facts for people and tables. Like the blobs they are a
	// pure function of the node: no times, no hosts.
	Metrics    json.RawMessage `json:"metrics,omitempty"`
	Provenance Provenance      `json:"provenance"`
}

// Blob names one output of a node.
type Blob struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
	Size   int64  `json:"size"`
	// Inline holds the bytes themselves when they are few (at most
	// MaxInline); such a blob is no object of its own and is never evicted.
	Inline []byte `json:"inline,omitempty"`
}

// MaxInline is the largest blob that travels inside its commit, in bytes.
const MaxInline = 32 << 10

// Provenance says where and when a node was computed. It is not part of what
// two attempts must agree on.
type Provenance struct {
	Worker  string    `json:"worker"`
	Host    string    `json:"host"`
	Version string    `json:"version"` // of coalmine
	Kernels string    `json:"kernels"` // the kernel set: avx512, avx2 or go
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
}

// Blob returns the named output.
func (c *Commit) Blob(name string) (Blob, bool) {
	for _, b := range c.Blobs {
		if b.Name == name {
			return b, true
		}
	}
	return Blob{}, false
}
