//go:build unix && !linux && !darwin

package dir

import "errors"

func renameNoReplace(from, to string) error { return errors.ErrUnsupported }

func fileSystem(string) string { return "file system unknown" }
