// Package datadir keeps the data directory of embedded runs. Users name it by --home, and messages call it home. It
// has one owner at a time; other processes use the owner's HTTP API:
//
//	d, err := datadir.Claim(".coalmine")
//	if owned, ok := errors.AsType[*datadir.OwnedError](err); ok {
//		// be a client of owned.Address, with owned.Token
//	}
//	defer d.Close()
//	d.Announce("http://127.0.0.1:41234", token)
//
// Ownership is a lock on an open file. The system releases it however the process ends, so there is nothing
// to clean up after a kill -9. The directory contains
//
//	lock         held by the owner as long as it lives
//	gate         held for a moment by a process that checks the lock
//	owner.json   the owner's process id, address and token
//	store/       the store
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"coalmine/internal/secrets"
	"coalmine/storage/dir"
)

// Dir is a data directory that this process owns.
type Dir struct {
	path string
	lock *os.File

	mu     sync.Mutex
	closed bool
}

// OwnedError reports that another process owns the directory.
type OwnedError struct {
	Dir string
	// Address is the address of the owner's HTTP API, or empty if the owner has not announced it within a few seconds.
	Address string
	// Token gives access to the API. It is never printed.
	Token string
	// PID is the owner's process id; 0 if unknown.
	PID int
}

func (e *OwnedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	if e.Address == "" {
		return fmt.Sprintf("home %s is in use by %s, which does not answer requests (yet); wait for it to end, or name another directory with --home", e.Dir, holder)
	}
	return fmt.Sprintf("home %s is in use by %s, which answers at %s", e.Dir, holder, e.Address)
}

// Pauses of Claim while an owner neither announces its address nor ends: the first and the longest pause,
// and the time after which Claim stops waiting.
const (
	firstPause = 5 * time.Millisecond
	longest    = 200 * time.Millisecond
	patience   = 5 * time.Second
)

// Claim makes this process the owner of a directory, which it creates if needed. The error is an
// *OwnedError if the directory has an owner, even if that is this process. Claim waits up to five seconds
// for an owner to announce itself or to end.
func Claim(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	if err := dir.Make(path, 0o700); err != nil {
		return nil, fmt.Errorf("home %s: %w; name a writable directory with --home", path, err)
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

// ownerOf returns the owner of a directory, or nil.
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

// OwnerAlive reports whether the owner in e still owns the directory. It returns true if it cannot tell.
func (e *OwnedError) OwnerAlive() bool {
	now, err := ownerOf(e.Dir)
	return err != nil || now != nil && now.PID == e.PID && now.Address == e.Address
}

// try claims the directory or returns its owner. It holds the gate meanwhile: a new owner releases the gate
// only after it has replaced its predecessor's owner.json, so that a process that finds the lock taken also
// finds the owner's name.
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
	if err := d.Announce("", ""); err != nil && forget(path) != nil { // the disk may be full
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// Announce tells the user's other processes the address and the token of this process's API.
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

func (d *Dir) Store() string { return StorePath(d.path) }

// StorePath returns the path of the store of a data directory, for readers that do not own it.
func StorePath(path string) string { return filepath.Join(path, "store") }

// owner is the content of owner.json.
type owner struct {
	Address string `json:"address"` // empty until it is announced
	// Token gives access to the API with all permissions. Only the user who owns the directory can read this file.
	Token string `json:"token,omitempty"`
	PID   int    `json:"pid"`
}

func ownerFile(dir string) string { return filepath.Join(dir, "owner.json") }

// NoteSecrets hides the token file of a data directory from external programs, even if another
// process owns the directory.
func NoteSecrets(dir string) { secrets.NoteFile(ownerFile(dir)) }

// writeOwner replaces owner.json atomically, and makes it unreadable for other users.
func writeOwner(dir string, o owner) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("home %s: %w", dir, err)
	}
	NoteSecrets(dir)
	temp := ownerFile(dir) + ".new"
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		_ = os.Remove(temp) // it may not exist
		return fmt.Errorf("home %s: %w", dir, err)
	}
	if err := os.Rename(temp, ownerFile(dir)); err != nil {
		return fmt.Errorf("home %s: %w", dir, errors.Join(err, os.Remove(temp)))
	}
	return nil
}

// forget removes owner.json. Without the file, the owner of a directory counts as not answering.
func forget(dir string) error {
	err := os.Remove(ownerFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// readOwner returns an *OwnedError with the known facts about the owner. The file is missing for a moment
// while an owner ends.
func readOwner(dir string) error {
	NoteSecrets(dir)
	e := &OwnedError{Dir: dir}
	data, err := os.ReadFile(ownerFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return e
	}
	if err != nil {
		return fmt.Errorf("home %s: %w", dir, err)
	}
	var o owner
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("home %s: %s was damaged: %w; end the process that uses the home", dir, ownerFile(dir), err)
	}
	e.Address, e.Token, e.PID = o.Address, o.Token, o.PID
	return e
}
