package tasks

import (
	"errors"
	"fmt"

	"coalmine/storage"
)

// permanentError marks an error that another try cannot mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks err as one that another try cannot mend: bad input, an
// impossible configuration, a diverged model. nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether err was marked by Permanent. An error of the store is
// never permanent, even if marked: it passes, or an operator mends the store.
func IsPermanent(err error) bool {
	_, ok := errors.AsType[permanentError](err)
	return ok && !storage.IsTrouble(err)
}

// MissingError says that the output of a node is gone, or never was. It is no
// failure, only work: the coordinator plans the node again.
type MissingError struct {
	Node storage.Key
	Blob string // empty when the commit itself is missing
	Err  error
}

func (e *MissingError) Error() string {
	if e.Blob == "" {
		return fmt.Sprintf("node %s is not committed: %v", e.Node.Short(), e.Err)
	}
	return fmt.Sprintf("blob %q of node %s is not available: %v", e.Blob, e.Node.Short(), e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }
