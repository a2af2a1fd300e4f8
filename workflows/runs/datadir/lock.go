package datadir

import (
	"errors"
	"fmt"
	"os"
)

var errLocked = errors.New("locked by another process")

// tryLock opens a file and locks it until it is closed. The file stays: if it
// were removed, two processes could lock two files of one name.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}
