package storage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Commit is the small record that makes a node done. It is created once, if
// absent, after all its blobs are stored, and carries its own checksum.
type Commit struct {
	Key         Key    `json:"key"`
	Kind        string `json:"kind"`
	KindVersion int    `json:"kind_version"`
	// Attempt identifies the execution that won.
	Attempt string `json:"attempt"`
	// Blobs are the outputs, ordered by name; names are unique.
	Blobs []Blob `json:"blobs"`
	// Metrics are small facts for display. Like the blobs they are a pure
	// function of the node: no times, no hosts.
	Metrics    json.RawMessage `json:"metrics,omitempty"`
	Provenance Provenance      `json:"provenance"`
}

// Blob names one output of a node.
type Blob struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
	Size   int64  `json:"size"`
	// Inline holds the bytes of a blob of at most MaxInline bytes; such a blob has no separate
	// object and is never evicted.
	Inline []byte `json:"inline,omitempty"`
	// Blocks are checksums for reading parts, see blocks.go; nil for inline blobs.
	Blocks []byte `json:"blocks,omitempty"`
}

// IsInline reports whether the commit holds the blob's bytes. An empty blob is always inline.
func (b Blob) IsInline() bool { return b.Inline != nil || b.Size == 0 }

// MaxInline is the largest inline blob, in bytes.
const MaxInline = 32 << 10

// Provenance records where and when a node was computed. Two attempts need not agree on it.
type Provenance struct {
	Worker  string    `json:"worker"`
	Host    string    `json:"host"`
	Version string    `json:"version"` // version of coalmine
	Arch    string    `json:"arch"`    // processor architecture, as GOARCH names it
	Kernels string    `json:"kernels"` // the kernel set: avx512, avx2 or go
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// MayDiffer reports that another execution may give other bytes: the node runs an external
	// command that was not declared deterministic.
	MayDiffer bool `json:"may_differ,omitempty"`
	// Took lists the durations of the steps of a training's segment up to this one, in seconds:
	// each from the start of its first task to the end of its last. 0 is an unknown duration;
	// nil means that no step ends with the node.
	Took []float64 `json:"took,omitempty"`
}

// Comparable reports whether a task gives the same bytes in both places. The kernel sets of one
// architecture are comparable: tests compare them. Different architectures are not, because
// compilers fuse multiplications and additions differently; each is deterministic by itself.
// Records without an architecture predate the field and come from amd64.
func (p Provenance) Comparable(other Provenance) bool {
	return cmp.Or(p.Arch, "amd64") == cmp.Or(other.Arch, "amd64")
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

// Objects returns the blobs that are separate objects, without their block sums: the input of a
// deletion of the node. It is not nil even if there are none.
func (c *Commit) Objects() []Blob {
	objects := []Blob{}
	for _, b := range c.Blobs {
		if !b.IsInline() {
			b.Blocks = nil
			objects = append(objects, b)
		}
	}
	return objects
}

// Differs describes the difference between the outputs of two commits of one node, or returns "" if
// they agree. Two executions of a task MUST agree in blobs and metrics; attempt, provenance and the
// choice of inline blobs do not count.
func (c *Commit) Differs(other *Commit) string {
	if c.Kind != other.Kind || c.KindVersion != other.KindVersion {
		return fmt.Sprintf("kind %s@%d, not %s@%d", other.Kind, other.KindVersion, c.Kind, c.KindVersion)
	}
	for _, b := range c.Blobs {
		o, ok := other.Blob(b.Name)
		if !ok {
			return fmt.Sprintf("blob %q is missing", b.Name)
		}
		if o.Digest != b.Digest {
			return fmt.Sprintf("blob %q has digest %s (%d bytes), not %s (%d bytes)",
				b.Name, o.Digest.Short(), o.Size, b.Digest.Short(), b.Size)
		}
	}
	if len(c.Blobs) != len(other.Blobs) {
		return fmt.Sprintf("%d blobs, not %d", len(other.Blobs), len(c.Blobs))
	}
	if !bytes.Equal(compactJSON(c.Metrics), compactJSON(other.Metrics)) {
		return "the metrics differ"
	}
	return ""
}

// compactJSON returns raw as a record stores it; invalid JSON is unchanged.
func compactJSON(raw json.RawMessage) []byte {
	if compact, err := json.Marshal(raw); err == nil && len(raw) > 0 {
		return compact
	}
	return raw
}
