// Package storage holds the authoritative data of every run: imported sources, blobs,
// commits, run records and attempt logs (docs/storage.md shows the layout). All other
// data, including the queue, can be lost and rebuilt from it.
//
// Store is the contract of an object store. Its drivers are the packages below: dir (a
// local directory, durable) and s3 (any S3-compatible server). The suite in storagetest
// runs on each of them. Archive is the typed view for the other packages: it implements
// the layout, checks every digest it reads, and makes commits exactly once.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Store holds immutable objects under slash-separated names. It is safe for concurrent
// use by goroutines and processes.
//
// A name is 1 to 512 bytes of [a-z A-Z 0-9 . _ - /], has no empty, "." or ".."
// segment, and is never a prefix directory of another name. Drivers MUST
// refuse any other name with an error that wraps ErrName.
type Store interface {
	// Put stores all of body under name and replaces an existing object. Readers MUST see the old
	// object or the new one, never a mixture or a part, even if the process dies in the middle.
	// With Durable the object MUST survive a power cut once Put has returned. Put seeks to the
	// start of body before each try, so that a driver may retry.
	Put(ctx context.Context, name string, body io.ReadSeeker, durability Durability) error

	// Copy stores the object from also under to, replacing any object there, as if it
	// had just been put: each MUST outlive a deletion of the other. The bytes need not
	// pass through this process. A missing object gives an error that wraps ErrNotFound.
	Copy(ctx context.Context, from, to string, durability Durability) error

	// Create stores data under name, durably, if there is no such object. Of any number of
	// concurrent calls for one name exactly one MUST return nil; all others return an error that
	// wraps ErrExists. If the outcome is unknown (a connection reset, an odd file system), the
	// error wraps ErrUnknown: the caller reads the object back to determine the winner. data is at
	// most MaxCreate bytes; more is refused before anything is sent.
	Create(ctx context.Context, name string, data []byte) error

	// Get opens length bytes of the object from offset; a negative length means
	// to the end. A missing object gives an error that wraps ErrNotFound. The
	// caller closes the reader, and MUST treat a short read as an error.
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)

	// Head describes the object, or gives an error that wraps ErrNotFound.
	Head(ctx context.Context, name string) (Info, error)

	// List yields the objects whose name starts with prefix, in byte order of their
	// names. It may be slow: no round depends on it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Children yields the distinct next segments below the directory dir (no trailing slash; "" is
	// the root) in byte order, with a trailing slash if there are objects below.
	Children(ctx context.Context, dir string) iter.Seq2[string, error]

	// Delete removes the objects; missing names are not an error.
	Delete(ctx context.Context, names ...string) error

	// String returns the store's URL without any credentials, for messages.
	String() string
}

// MaxCreate is the largest object of Store.Create, in bytes: it must fit in one request
// that is never split.
const MaxCreate = 1 << 20

// Info describes one object.
type Info struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Durability is the kind of failure that a Put must survive.
type Durability int

const (
	// Durable objects survive a power cut.
	Durable Durability = iota
	// Recomputable objects may be lost or torn by a power cut, though not by the
	// death of a process: a digest guards every read, and a plan can recompute them.
	Recomputable
)

// Errors that drivers wrap, to be tested with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrUnknown  = errors.New("outcome unknown")
	ErrName     = errors.New("not a valid object name")
	// ErrCorrupt: the bytes read differ from the bytes written.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsuitable: the store cannot fulfil the contract (no create-if-absent, wrong
	// credentials, read-only); opening it fails.
	ErrUnsuitable = errors.New("store not suitable")
	// ErrFull: no space left. A retry does not help until space is freed.
	ErrFull = errors.New("store is full")
	// ErrAway: the store does not answer, or refuses every request: it is down,
	// overloaded, read-only, or its keys have expired.
	ErrAway = errors.New("store not available")
)

// KnownError is an error of the store with a known cause. Drivers return it.
type KnownError struct {
	// Mark is one of the errors above, for errors.Is.
	Mark error
	// Cause describes the trouble without secrets: /readyz shows it publicly.
	Cause string
	// Remedy is the action to take; empty if there is none.
	Remedy string
	// Err is the server's own error.
	Err error
}

func (t *KnownError) Error() string {
	if t.Remedy == "" {
		return fmt.Sprintf("%v: %s: %v", t.Mark, t.Cause, t.Err)
	}
	return fmt.Sprintf("%v: %s: %s: %v", t.Mark, t.Cause, t.Remedy, t.Err)
}

// Unwrap returns the mark and the server's own error.
func (t *KnownError) Unwrap() []error { return []error{t.Mark, t.Err} }

// Brief returns the cause.
func (t *KnownError) Brief() string { return t.Cause }

// ObjectError names the store and the object of an error. Drivers return it, and an Archive
// replaces it, so that object and store are named once however many layers an error passes.
type ObjectError struct {
	// Op is the operation, such as "get" or "reading".
	Op string
	// Name is the name of the object or of a group: a run, a directory.
	Name string
	// Store is Store.String of its store.
	Store string
	Err   error
}

func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s %s in %s: %v", e.Op, e.Name, e.Store, e.Err)
}

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Err }

// IsTrouble reports whether an error is a fault of the store rather than of a request:
// the same request may succeed after the store has been repaired.
func IsTrouble(err error) bool {
	return errors.Is(err, ErrAway) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnsuitable)
}
