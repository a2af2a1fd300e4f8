package dir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func openFile(path string, flags int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags, perm)
}

// syncDir does nothing: Windows cannot sync directories; NTFS journals names.
func syncDir(string) error { return nil }

// removeFile removes a file. For a directory it returns an error.
func removeFile(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		err = windows.DeleteFile(name)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// removeDir removes an empty directory and nothing else.
func removeDir(path string) error { return syscall.Rmdir(path) }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// isNotDir returns false: Windows reports "path not found", which already means absence.
func isNotDir(error) bool { return false }

// renameNoReplace uses the default of MoveFileEx.
func renameNoReplace(from, to string) error {
	f, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	t, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	return windows.MoveFileEx(f, t, windows.MOVEFILE_WRITE_THROUGH)
}

func fileSystem(string) string { return "file system unknown" }
