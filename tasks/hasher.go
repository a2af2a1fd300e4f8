package tasks

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"coalmine/storage"
)

// Hasher derives keys. Every field is length-prefixed, so that distinct sequences of fields differ.
type Hasher struct{ h hash.Hash }

// NewHasher starts a key in the named domain.
func NewHasher(domain string) Hasher {
	h := Hasher{sha256.New()}
	h.String(domain)
	return h
}

// String adds a string.
func (h Hasher) String(s string) {
	h.Uint(uint64(len(s)))
	io.WriteString(h.h, s)
}

// Uint adds an integer.
func (h Hasher) Uint(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.h.Write(b[:])
}

// Key adds another key.
func (h Hasher) Key(k storage.Key) { h.h.Write(k.Digest[:]) }

// Sum ends the key.
func (h Hasher) Sum() storage.Key {
	var k storage.Key
	h.h.Sum(k.Digest[:0])
	return k
}

// StepHasher derives the keys of the steps of a chain, without allocating: a chain may have
// millions of steps.
type StepHasher struct {
	fields [8 + len(stepDomain) + 32 + 8 + 32]byte
}

const (
	stepDomain   = "step"
	stepNumberAt = 8 + len(stepDomain) + 32
)

// NewStepHasher returns a hasher for the chain of a recipe.
func NewStepHasher(recipe storage.Key) *StepHasher {
	h := new(StepHasher)
	binary.LittleEndian.PutUint64(h.fields[:], uint64(len(stepDomain)))
	copy(h.fields[8:], stepDomain)
	copy(h.fields[8+len(stepDomain):], recipe.Digest[:])
	return h
}

// Next returns the key of a step, given the key of the previous step: the hash of recipe, number
// and key in the domain "step".
func (h *StepHasher) Next(step int, before storage.Key) storage.Key {
	binary.LittleEndian.PutUint64(h.fields[stepNumberAt:], uint64(step))
	copy(h.fields[stepNumberAt+8:], before.Digest[:])
	return storage.Key{Digest: sha256.Sum256(h.fields[:])}
}
