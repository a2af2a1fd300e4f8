//go:build !linux

package childprocess

import (
	"errors"
	"os/exec"
)

// Enforced returns no limits on this platform.
func Enforced() Enforcement { return Enforcement{} }

// unconfined is a command without restrictions.
type unconfined struct{}

func (unconfined) memory() (bytes int64, look bool) { return 0, false }

func (unconfined) outgrown() bool { return false }

func (unconfined) killedForMemory() bool { return false }

func (unconfined) readOnly() bool { return false }

// exitOf returns nil for exit status 0.
func exitOf(err error) *ExitError {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case ok:
		return &ExitError{Status: exit.ExitCode(), how: exit.String()}
	case err != nil:
		return &ExitError{Status: -1, how: err.Error()}
	}
	return nil
}
