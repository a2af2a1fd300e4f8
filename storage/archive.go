package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"coalmine/internal/goroutines"
)

// Archive is the typed view of a Store: it implements the layout, checks the objects it reads, and
// makes commits exactly once. It is safe for concurrent use by goroutines and processes.
//
// Errors name the store, the object and the expectation, and wrap the errors
// of this package (ErrNotFound, ErrCorrupt, ErrFull, ...).
type Archive struct {
	store Store
}

// NewArchive returns a typed view of store.
func NewArchive(store Store) *Archive { return &Archive{store} }

// Store returns the underlying store.
func (a *Archive) Store() Store { return a.store }

// String returns the store's URL without any credentials.
func (a *Archive) String() string { return a.store.String() }

// fail names the store and the object of an error, replacing or completing the driver's names. It
// returns nil for nil.
func (a *Archive) fail(doing, name string, err error) error {
	inner, ok := err.(*ObjectError)
	switch {
	case err == nil:
		return nil
	case !ok:
		return &ObjectError{Op: doing, Name: name, Store: a.String(), Err: err}
	case inner.Name == name:
		return &ObjectError{Op: doing, Name: name, Store: inner.Store, Err: inner.Err}
	}
	return fmt.Errorf("%s %s: %w", doing, name, err)
}

func (a *Archive) read(ctx context.Context, name string) ([]byte, error) {
	r, err := a.store.Get(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return data, err
}

// readSealed reads a record and decodes it. Bytes can be damaged in transit as well as in the
// store, and callers remove or skip a torn record. So an invalid record is read again: it is torn
// if two reads return the same bytes; if all reads differ, the connection to the store is faulty.
func (a *Archive) readSealed(ctx context.Context, f Format, name string, into any) error {
	var before []byte
	for range sealedTries {
		data, err := a.read(ctx, name)
		if err != nil {
			return err
		}
		if err := unseal(f, data, into); !errors.Is(err, ErrCorrupt) || before != nil && bytes.Equal(before, data) {
			return err
		}
		before = data
	}
	return fmt.Errorf("%w: its content differs from one read to the next", ErrAway)
}

// sealedTries is the number of times that an invalid record is read.
const sealedTries = 4

func (a *Archive) exists(ctx context.Context, name string) (bool, error) {
	_, err := a.store.Head(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (a *Archive) put(ctx context.Context, name string, data []byte, durability Durability) error {
	return a.store.Put(ctx, name, bytes.NewReader(data), durability)
}

// create makes an object with bytes that no other maker would choose: isOurs
// recognizes them if the name is taken or the outcome is unknown. It returns nil if
// the object in the store is ours, an error that wraps ErrExists and the bytes if
// another object has the name, and ErrUnknown if the outcome remains unknown.
func (a *Archive) create(ctx context.Context, name string, data []byte, isOurs func(found []byte) bool) ([]byte, error) {
	var err error
	for try := range createTries {
		if try > 0 {
			// There is no object: the request was lost, or the object was deleted
			// since. Either way, create it again.
			if err := goroutines.Sleep(ctx, firstPause<<try); err != nil {
				return nil, err
			}
		}
		if err = a.store.Create(ctx, name, data); err == nil {
			return nil, nil
		}
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrUnknown) {
			return nil, err
		}
		found, readErr := a.read(ctx, name)
		switch {
		case readErr == nil && isOurs(found):
			return nil, nil
		case readErr == nil:
			return found, fmt.Errorf("%w: made by another", ErrExists)
		case !errors.Is(readErr, ErrNotFound):
			return nil, readErr
		}
	}
	return nil, err
}

// createTries and firstPause limit how often create retries if a name is taken
// but no object can be read there: for about two seconds.
const (
	createTries = 8
	firstPause  = 8 * time.Millisecond
)
