// Package storage holds the truth of every run: imported sources, blobs,
// commits, run records and attempt logs (docs/storage.md shows the layout).
// Everything else, the queue included, can be lost and rebuilt from it.
//
// Store is the contract with a place that keeps objects. Its drivers live in
// the folders below: dir (a local directory, truly durable) and s3 (any
// S3-compatible server). The suite in storagetest runs on each of them.
// Archive is the typed view that the rest of the program uses: it knows the
// layout, checks every digest it reads, and makes commits exactly once.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Store keeps immutable objects under slash-separated names. All methods may
// be called from several goroutines and from several processes at once.
//
// A name is 1 to 512 bytes of [a-z A-Z 0-9 . _ - /], has no empty, "." or ".."
// segment, and is never a prefix directory of another name. Drivers MUST
// refuse any other name with an error that wraps ErrName.
type Store interface {
	// Put stores the whole of body under name and replaces what was there.
	// Readers MUST see the old object or the new one, never a mixture or a
	// part, even if the process dies in the middle. With Durable the object
	// MUST survive a power cut once Put has returned. Put seeks to the start of
	// body before each try, so that a driver may try again.
	Put(ctx context.Context, name string, body io.ReadSeeker, durability Durability) error

	// Copy stores what is under from under to as well, in place of what was there, as if
	// it were put there just now: both MUST outlive a deletion of the other. The bytes
	// need not pass through this process. A missing object gives an error that wraps
	// ErrNotFound.
	Copy(ctx context.Context, from, to string, durability Durability) error

	// Create stores data under name if nothing is there, durably. Of any number
	// of concurrent calls for one name exactly one MUST return nil; the others
	// return an error that wraps ErrExists. When the outcome cannot be known (a
	// connection reset, an odd file system) the error wraps ErrUnknown: the
	// caller reads the object back to learn who won. data is at most MaxCreate
	// bytes; more is refused before anything is sent.
	Create(ctx context.Context, name string, data []byte) error

	// Get opens length bytes of the object from offset; a negative length means
	// to the end. A missing object gives an error that wraps ErrNotFound. The
	// caller closes the reader, and MUST treat a short read as an error.
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)

	// Head describes the object, or gives an error that wraps ErrNotFound.
	Head(ctx context.Context, name string) (Info, error)

	// List yields the objects whose name starts with prefix, in byte order of
	// their names. It may be slow: nothing on the path of a round calls it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Children yields the distinct next segments below the directory dir (no
	// trailing slash; "" is the root), with a trailing slash where there is more
	// below, in byte order.
	Children(ctx context.Context, dir string) iter.Seq2[string, error]

	// Delete removes the objects; names that are not there are no error.
	Delete(ctx context.Context, names ...string) error

	// String is the store's URL without any credentials, for messages.
	String() string
}

// MaxCreate is the largest object that Store.Create takes, in bytes: it must
// travel in one request that is never cut into parts.
const MaxCreate = 1 << 20

// Info describes one object.
type Info struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Durability says what a Put must outlive.
type Durability int

const (
	// Durable objects survive a power cut.
	Durable Durability = iota
	// Recomputable objects may be lost or torn by a power cut, though not by the
	// death of a process: a digest guards every read, and a plan can make them again.
	Recomputable
)

// Errors that drivers wrap, to be tested with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrUnknown  = errors.New("outcome unknown")
	ErrName     = errors.New("not a valid object name")
	// ErrCorrupt: the bytes read are not the bytes that were written.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsuitable: the store cannot keep the contract (no create-if-absent,
	// wrong credentials, read-only); it is refused when opened.
	ErrUnsuitable = errors.New("store not suitable")
	// ErrFull: no space left. Trying again does not help until somebody makes room.
	ErrFull = errors.New("store is full")
	// ErrAway: the store does not answer, or refuses whatever it is asked: it is
	// down, overloaded, read-only, or its keys have expired.
	ErrAway = errors.New("store not available")
)

// Trouble is an error of the store whose cause is known. Drivers return it.
type Trouble struct {
	// Mark is one of the errors above, on which programs decide.
	Mark error
	// Cause describes the trouble without secrets: /readyz shows it to everybody.
	Cause string
	// Remedy is the action to take; empty if there is none.
	Remedy string
	// Err is the server's own error.
	Err error
}

// Error implements error.
func (t *Trouble) Error() string {
	if t.Remedy == "" {
		return fmt.Sprintf("%v: %s: %v", t.Mark, t.Cause, t.Err)
	}
	return fmt.Sprintf("%v: %s: %s: %v", t.Mark, t.Cause, t.Remedy, t.Err)
}

// Unwrap returns the mark and the server's own error.
func (t *Trouble) Unwrap() []error { return []error{t.Mark, t.Err} }

// Brief returns the cause.
func (t *Trouble) Brief() string { return t.Cause }

// ObjectError says which object of which store an error is about. Drivers return
// it, and an Archive in its place, so that object and store are named once
// however many layers an error passes.
type ObjectError struct {
	// Op is what was being done, such as "get" or "reading".
	Op string
	// Name is the object's, or what stands for several: a run's, a directory.
	Name string
	// Store is Store.String of its store.
	Store string
	Err   error
}

// Error implements error.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s %s in %s: %v", e.Op, e.Name, e.Store, e.Err)
}

// Unwrap returns what went wrong.
func (e *ObjectError) Unwrap() error { return e.Err }

// IsTrouble reports whether an error is the store's and not that of a request:
// the same request may succeed when somebody has looked after the store.
func IsTrouble(err error) bool {
	return errors.Is(err, ErrAway) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnsuitable)
}
