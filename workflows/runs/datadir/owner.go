package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"coalmine/internal/secrets"
)

// owner is the content of owner.json.
type owner struct {
	Address string `json:"address"` // empty until it is announced
	// Token opens the API with all permissions. Only the user who owns the
	// directory can read this file.
	Token string `json:"token,omitempty"`
	PID   int    `json:"pid"`
}

func ownerFile(dir string) string { return filepath.Join(dir, "owner.json") }

// NoteSecrets hides the token file of a data directory from external programs, even if another
// process owns the directory.
func NoteSecrets(dir string) { secrets.NoteFile(ownerFile(dir)) }

// writeOwner replaces owner.json atomically, and makes it unreadable for other
// users.
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

// forget removes owner.json: without it, the owner of a directory counts as not answering.
func forget(dir string) error {
	err := os.Remove(ownerFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// readOwner returns an *OwnedError with the known facts about the owner: the
// file is missing for a moment while an owner ends.
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
