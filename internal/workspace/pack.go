package workspace

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// MaxCode is the most bytes that the files of a directory of code may have.
const MaxCode = 64 << 20

// Pack puts the files of a directory into an archive, which is the same for the same files:
// names, contents and whether they can be run. Hidden files and folders, and what Python
// compiles, are left out.
func Pack(directory fs.FS) ([]byte, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	files := 0
	err := fs.WalkDir(directory, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__pycache__"):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		if files++; files > MaxFiles {
			return fmt.Errorf("it holds more than %d files: expected code alone", MaxFiles)
		}
		return pack(archive, directory, name)
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("it holds no files: expected code that a command can run")
	}
	if err == nil {
		err = archive.Close()
	}
	return packed.Bytes(), err
}

func pack(archive *tar.Writer, directory fs.FS, name string) error {
	f, err := directory.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder: expected files alone", name)
	case info.Size() > MaxCode:
		return &TooLargeError{name, info.Size(), MaxCode}
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}
