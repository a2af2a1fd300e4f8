package dir

// OpenRenaming opens a store as on a file system without hard links.
func OpenRenaming(path string) (*Store, error) {
	s, err := Open(path)
	if err != nil {
		return nil, err
	}
	s.claim = byRename
	return s, s.try(byRename)
}

// ByLink is the claim by hard link.
var ByLink = byLink

// Unsuitable is the error for a place that is refused.
func (s *Store) Unsuitable(err error) error { return s.unsuitable(err) }

// Fail is the error of an operation that the file system has failed.
func (s *Store) Fail(err error) error { return s.fail("put", "x", err) }

// TempDir is the directory of files before they get their names.
func (s *Store) TempDir() string { return s.tempDir() }

// MakeAndSync makes a directory and returns the directories that it has synced.
func MakeAndSync(path string) (synced []string, err error) {
	err = makeAndSync(path, 0o777, func(dir string) error {
		synced = append(synced, dir)
		return nil
	})
	return synced, err
}
