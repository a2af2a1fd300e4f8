package tempfiles

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile is Replace with the given content.
func WriteFile(path string, data []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
}

// Replace writes a file under a temporary name beside path and renames it, so that an error or a
// killed process leaves an older file at path as it was. The new file has the permissions of the
// older one. Replace follows symbolic links. It writes directly to a device or a pipe, and to a
// file whose directory takes no new files.
func Replace(path string, write func(io.Writer) error) error {
	target, mode, whole := replaceable(path)
	temporary := filepath.Join(filepath.Dir(target), ".coalmine-"+rand.Text())
	var file *os.File
	if whole {
		file, _ = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if file == nil {
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	err := write(file)
	if err == nil && mode != 0 {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		return os.Rename(temporary, target)
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == temporary {
		at.Path = path
	}
	return errors.Join(err, os.Remove(temporary))
}

// replaceable returns the file that path names, its permissions, 0 for a missing file, and
// whether it can be replaced by another file.
func replaceable(path string) (target string, mode fs.FileMode, whole bool) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, 0, true
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, 0, false
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() {
		return path, 0, false
	}
	return target, info.Mode().Perm(), true
}
