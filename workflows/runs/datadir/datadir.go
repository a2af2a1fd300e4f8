// Package datadir keeps the data directory of embedded runs, which users name by
// --home and call a home. It has one owner at a time; other processes use the owner's
// HTTP API:
//
//	d, err := datadir.Claim(".coalmine")
//	if owned, ok := errors.AsType[*datadir.OwnedError](err); ok {
//		// be a client of owned.Address, with owned.Token
//	}
//	defer d.Close()
//	d.Announce("http://127.0.0.1:41234", token)
//
// Ownership is a lock on an open file. The system takes it back when the process
// ends, however it ends: there is nothing to clean up after a kill -9. Inside are
//
//	lock         held by the owner as long as it lives
//	gate         held for a moment by a process that looks at the lock
//	owner.json   who the owner is and where it answers
//	store/       the store
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"coalmine/storage/dir"
)

// Dir is a data directory that this process owns.
type Dir struct {
	path string
	lock *os.File

	mu     sync.Mutex
	closed bool
}

// OwnedError says that another process owns the directory.
type OwnedError struct {
	Dir string
	// Address is where the owner's HTTP API answers; empty if the owner has
	// not said so within a few seconds.
	Address string
	// Token opens its API; it is never printed.
	Token string
	// PID is the owner's process id; 0 if it is not known.
	PID int
}

func (e *OwnedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.Address == "" {
		return fmt.Sprintf("home %s is in use by %s, which answers no requests (yet); wait for it to end, or name another directory by --home", e.Dir, who)
	}
	return fmt.Sprintf("home %s is in use by %s, which answers at %s", e.Dir, who, e.Address)
}

// How often Claim looks whether an owner has said where it answers, or has gone.
const (
	firstPause = 5 * time.Millisecond
	longest    = 200 * time.Millisecond
	patience   = 5 * time.Second
)

// Claim makes this process the owner of a directory, which it creates if need be. The
// error is an *OwnedError if another process is, or if this one already is; an
// owner that has not announced itself yet is given some seconds to do so, or to
// end.
func Claim(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	if err := dir.Make(path, 0o700); err != nil {
		return nil, fmt.Errorf("home %s: %w", path, err)
	}
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longest) {
		d, err := try(path)
		owned, taken := errors.AsType[*OwnedError](err)
		if !taken || owned.Address != "" || time.Now().After(deadline) {
			return d, err
		}
		time.Sleep(pause)
	}
}

// ownerOf says which process owns a directory; nil if none does.
func ownerOf(path string) (*OwnedError, error) {
	d, err := try(path)
	if owned, taken := errors.AsType[*OwnedError](err); taken {
		return owned, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, d.Close()
}

// Owns reports whether that process still owns the directory, as far as can be told:
// one that cannot be looked at has the owner that it had.
func (e *OwnedError) Owns() bool {
	now, err := ownerOf(e.Dir)
	return err != nil || now != nil && now.PID == e.PID && now.Address == e.Address
}

// try claims the directory or says who has it. It holds the gate meanwhile: a new
// owner passes it only after it has replaced its predecessor's owner.json, so
// that a process that finds the lock taken finds the owner's name beside it.
func try(path string) (*Dir, error) {
	gate, err := tryLock(filepath.Join(path, "gate"))
	if errors.Is(err, errLocked) {
		return nil, &OwnedError{Dir: path}
	}
	if err != nil {
		return nil, fmt.Errorf("home %s: %w", path, err)
	}
	defer gate.Close()
	lock, err := tryLock(filepath.Join(path, "lock"))
	if errors.Is(err, errLocked) {
		return nil, readOwner(path)
	}
	if err != nil {
		return nil, fmt.Errorf("home %s: %w", path, err)
	}
	d := &Dir{path: path, lock: lock}
	if err := d.Announce("", ""); err != nil && forget(path) != nil { // a disk may be full
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// Announce tells the others, of the same user, where this process answers and
// what token opens its API.
func (d *Dir) Announce(address, token string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("home %s: announced after it was closed", d.path)
	}
	return writeOwner(d.path, owner{address, token, os.Getpid()})
}

// Close gives the directory up. It may be called again.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(forget(d.path), d.lock.Close())
}

// Store is where the store is.
func (d *Dir) Store() string { return StorePath(d.path) }

// StorePath is where the store of a data directory is, for those who only read it.
func StorePath(path string) string { return filepath.Join(path, "store") }
