package storage

import (
	"fmt"
	"regexp"
	"strings"
)

// maxName is the longest object name, in bytes.
const maxName = 512

// CheckName returns an error that wraps ErrName unless name is a valid object
// name. Every driver calls it first.
func CheckName(name string) error {
	if err := CheckPrefix(name); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: %.80q has an empty or relative segment", ErrName, name)
		}
	}
	return nil
}

// CheckPrefix returns an error that wraps ErrName unless an object name can
// start with prefix.
func CheckPrefix(prefix string) error {
	if len(prefix) > maxName {
		return fmt.Errorf("%w: %.80q... has %d bytes, at most %d are allowed", ErrName, prefix, len(prefix), maxName)
	}
	for i := range len(prefix) {
		if !isNameByte(prefix[i]) {
			return fmt.Errorf("%w: %.80q: only letters, digits and . _ - / are allowed", ErrName, prefix)
		}
	}
	return nil
}

// CheckDir returns an error that wraps ErrName unless dir is "", the root, or a
// valid directory of an object.
func CheckDir(dir string) error {
	if dir == "" {
		return nil
	}
	return CheckName(dir)
}

func isNameByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '.' || b == '_' || b == '-' || b == '/'
}

var runID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,80}$`)

// CheckRunID returns an error that wraps ErrName unless id is a valid run id: 1
// to 81 bytes of [a-z 0-9 . _ -], the first a letter or a digit.
func CheckRunID(id string) error {
	if !runID.MatchString(id) {
		return fmt.Errorf("%w: run id %.100q: want 1 to 81 of a-z, 0-9, '.', '_', '-', starting with a letter or digit", ErrName, id)
	}
	return nil
}
