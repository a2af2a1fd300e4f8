package dir

import "golang.org/x/sys/unix"

func renameNoReplace(from, to string) error {
	return unix.RenamexNp(from, to, unix.RENAME_EXCL)
}

// fileSystem names the file system that holds path, for messages: "apfs".
func fileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "file system unknown"
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
