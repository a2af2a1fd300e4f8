package tasks

import (
	"errors"
	"fmt"

	"coalmine/storage"
)

// permanentError marks an error that a retry cannot resolve.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks err as one that a retry cannot resolve: bad input, an impossible configuration, a
// diverged model. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether err was marked by Permanent. An error of the store is never
// permanent, even if marked: it is transient, or an operator repairs the store.
func IsPermanent(err error) bool {
	_, ok := errors.AsType[permanentError](err)
	return ok && !storage.IsTrouble(err)
}

// MissingError reports that the output of a node is gone or never existed. It is not a failure: the
// coordinator plans the node again.
type MissingError struct {
	Node storage.Key
	Blob string // empty if the commit itself is missing
	Err  error
}

func (e *MissingError) Error() string {
	if e.Blob == "" {
		return fmt.Sprintf("node %s is not committed: %v", e.Node.Short(), e.Err)
	}
	return fmt.Sprintf("blob %q of node %s is not available: %v", e.Blob, e.Node.Short(), e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }
