package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"coalmine/storage"
)

// claimFunc renames the file temp to path if that name is free. If another file
// has the name, the error wraps storage.ErrExists.
type claimFunc func(temp, path string) error

// byLink claims a name with a hard link. Over NFS a link can be made although
// an error is reported, if the reply to the first request is lost. So after any
// failure byLink compares the two names; the same file means success.
func byLink(temp, path string) error {
	err := os.Link(temp, path)
	if err == nil || sameFile(temp, path) {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", storage.ErrExists, err)
	}
	return err
}

func sameFile(a, b string) bool {
	x, err := os.Lstat(a)
	if err != nil {
		return false
	}
	y, err := os.Lstat(b)
	return err == nil && os.SameFile(x, y)
}

// byRename claims a name with a rename that does not replace.
func byRename(temp, path string) error {
	err := renameNoReplace(temp, path)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", storage.ErrExists, err)
	}
	return err
}

// probe returns a way to claim names that works in this directory. It claims a
// free name and then a taken one. The files are empty, so that a store on a
// full disk can be opened: reading and deleting still work there.
func (s *Store) probe() (claimFunc, error) {
	linkErr := s.try(byLink)
	if linkErr == nil {
		return byLink, nil
	}
	if isFull(linkErr) {
		return nil, linkErr // the error is not about links
	}
	renameErr := s.try(byRename)
	if renameErr == nil {
		return byRename, nil
	}
	return nil, fmt.Errorf("it offers neither hard links (%w) nor a rename that does not replace (%w)", linkErr, renameErr)
}

func (s *Store) try(claim claimFunc) error {
	first, err := s.writeTemp(strings.NewReader(""), storage.Durable)
	if err != nil {
		return err
	}
	defer os.Remove(first)
	second, err := s.writeTemp(strings.NewReader(""), storage.Durable)
	if err != nil {
		return err
	}
	defer os.Remove(second)
	want, err := os.Lstat(first)
	if err != nil {
		return err
	}
	name := first + ".claimed"
	defer os.Remove(name)
	if err := claim(first, name); err != nil {
		return err
	}
	if err := claim(second, name); !errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("a name that is taken was given again (%v)", err) //nolint:errorlint // mostly nil
	}
	if got, err := os.Lstat(name); err != nil || !os.SameFile(got, want) {
		return fmt.Errorf("a claimed name is of another file (%v)", err) //nolint:errorlint // may be nil
	}
	return syncDir(s.tempDir())
}
