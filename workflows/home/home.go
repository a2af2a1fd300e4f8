// Package home keeps the directory of embedded runs. A home has one owner at a
// time; whoever else comes talks to the owner's HTTP API:
//
//	h, err := home.Claim(".coalmine")
//	if owned, ok := errors.AsType[*home.OwnedError](err); ok {
//		// be a client of owned.Address, with owned.Token
//	}
//	defer h.Close()
//	h.Announce("http://127.0.0.1:41234", token)
//
// Ownership is a lock on an open file, which the system takes back when the
// process ends, however it ends: there is nothing to clean up after a kill -9.
// Inside are
//
//	lock         held by the owner as long as it lives
//	gate         held for a moment by whoever looks at the lock
//	owner.json   who the owner is and where it answers
//	store/       the store
package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"coalmine/storage/dir"
)

// Home is a directory that this process owns.
type Home struct {
	dir  string
	lock *os.File

	mu     sync.Mutex
	closed bool
}

// OwnedError says that another process owns the home.
type OwnedError struct {
	Dir string
	// Address is where the owner's HTTP API answers; empty if the owner has
	// not said so within a few seconds.
	Address string
	// Token is what its API asks for; never printed.
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
func Claim(path string) (*Home, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	if err := dir.Make(path, 0o700); err != nil {
		return nil, fmt.Errorf("home %s: %w", path, err)
	}
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longest) {
		h, err := try(path)
		owned, taken := errors.AsType[*OwnedError](err)
		if !taken || owned.Address != "" || time.Now().After(deadline) {
			return h, err
		}
		time.Sleep(pause)
	}
}

// ownerOf says which process owns a home; nil if none does.
func ownerOf(dir string) (*OwnedError, error) {
	h, err := try(dir)
	if owned, taken := errors.AsType[*OwnedError](err); taken {
		return owned, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, h.Close()
}

// Owns reports whether that process still owns the home, as far as can be told: a
// home that cannot be looked at has the owner that it had.
func (e *OwnedError) Owns() bool {
	now, err := ownerOf(e.Dir)
	return err != nil || now != nil && now.PID == e.PID && now.Address == e.Address
}

// try claims the home or says who has it. It holds the gate meanwhile: a new
// owner passes it only after it has replaced its predecessor's owner.json, so
// that whoever finds the lock taken finds nobody else's name beside it.
func try(dir string) (*Home, error) {
	gate, err := tryLock(filepath.Join(dir, "gate"))
	if errors.Is(err, errLocked) {
		return nil, &OwnedError{Dir: dir}
	}
	if err != nil {
		return nil, fmt.Errorf("home %s: %w", dir, err)
	}
	defer gate.Close()
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, readOwner(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("home %s: %w", dir, err)
	}
	h := &Home{dir: dir, lock: lock}
	if err := h.Announce("", ""); err != nil && forget(dir) != nil { // a disk may be full
		return nil, errors.Join(err, lock.Close())
	}
	return h, nil
}

// Announce tells the others, of the same user, where this process answers and
// what token opens its API.
func (h *Home) Announce(address, token string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("home %s: announced after it was closed", h.dir)
	}
	return writeOwner(h.dir, owner{address, token, os.Getpid()})
}

// Close gives the home up. It may be called again.
func (h *Home) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	return errors.Join(forget(h.dir), h.lock.Close())
}

// Store is the directory of the store.
func (h *Home) Store() string { return StorePath(h.dir) }

// StorePath is the directory of a home's store, for those who only read it.
func StorePath(dir string) string { return filepath.Join(dir, "store") }
