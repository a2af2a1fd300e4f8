//go:build !linux

package childprocess

import (
	"errors"
	"os/exec"
)

// exitOf is nil for exit status 0.
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
