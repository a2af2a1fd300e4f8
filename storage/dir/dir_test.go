package dir_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

func TestDirectoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Driver{
		Location: func(t testing.TB) string { return t.TempDir() },
		Open:     openDir,
		ChildEnv: []string{},
	})
}

func openDir(t testing.TB, location string) storage.Store {
	t.Helper()
	return must.Get(dir.Open(location))(t)
}

func TestDirectoryWithoutHardLinksKeepsTheContract(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is promised a rename that does not replace")
	}
	storagetest.Run(t, storagetest.Driver{
		Location: func(t testing.TB) string { return t.TempDir() },
		Open: func(t testing.TB, location string) storage.Store {
			s, err := dir.OpenRenaming(location)
			if err != nil {
				t.Skipf("no rename that does not replace here: %v", err)
			}
			return s
		},
	})
}

func TestLinkThatFailedButWasMadeIsSuccess(t *testing.T) {
	t.Parallel()
	temp, name := filepath.Join(t.TempDir(), "temp"), filepath.Join(t.TempDir(), "name")
	must.Do(t, os.WriteFile(temp, []byte("x"), 0o666))
	// The second call simulates a repeated NFS request: the name is taken by the same file.
	for range 2 {
		if err := dir.ByLink(temp, name); err != nil {
			t.Error(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	must.Do(t, os.WriteFile(other, []byte("y"), 0o666))
	if err := dir.ByLink(other, name); !errors.Is(err, storage.ErrExists) {
		t.Errorf("another file took the name: %v", err)
	}
}

func TestOpenRejectsUnsuitablePlaces(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o666))
	places := []string{file, filepath.Join(file, "below")}
	if runtime.GOOS == "linux" {
		places = append(places, "/proc/coalmine")
	}
	for _, place := range places {
		_, err := dir.Open(place)
		if !errors.Is(err, storage.ErrUnsuitable) {
			t.Errorf("%s: got %v, want an error that wraps %q", place, err, storage.ErrUnsuitable)
		}
		must.Say(t, err, place)
		if place == "/proc/coalmine" && !strings.Contains(err.Error(), "proc at /proc") {
			t.Errorf("the file system is not named in %v", err)
		}
	}
}

func TestFullDiskIsNotUnsuitable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("unix error numbers")
	}
	s := openDir(t, t.TempDir()).(*dir.Store)
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		err := s.Unsuitable(&os.PathError{Op: "write", Path: "x", Err: errno})
		if !errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrUnsuitable) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

func TestFileSystemTroubleIsNotAbsence(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("unix error numbers")
	}
	s := openDir(t, t.TempDir()).(*dir.Store)
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EIO, syscall.EACCES, syscall.ENOSPC} {
		if err := s.Fail(&os.PathError{Op: "write", Path: "x", Err: errno}); !storage.IsTrouble(err) {
			t.Errorf("%v is no trouble of the store", err)
		}
	}
	must.Do(t, s.Create(t.Context(), "x", []byte("x")))
	_, absent := s.Head(t.Context(), "absent")
	_, below := s.Head(t.Context(), "x/below")
	for _, err := range []error{absent, below, s.Create(t.Context(), "x", []byte("y"))} {
		if err == nil || storage.IsTrouble(err) {
			t.Errorf("%v is no trouble of the store", err)
		}
	}
}

func TestParentsOfNewDirectoryAreSynced(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	for _, c := range []struct {
		path string
		want []string
	}{
		{in("a", "b", "store"), []string{base, in("a"), in("a", "b")}},
		{in("a", "b", "other"), []string{in("a", "b")}},
		{in("a"), []string{base}}, // its maker may not have synced it
	} {
		if got, err := dir.MakeAndSync(c.path); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("making %s has synced %q, %v; want %q", c.path, got, err, c.want)
		}
		if info, err := os.Stat(c.path); err != nil || !info.IsDir() {
			t.Errorf("%s has not been made: %v", c.path, err)
		}
	}
}

func TestOpenRemovesOldTempFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := openDir(t, root).(*dir.Store)
	old, fresh := filepath.Join(s.TempDir(), "old"), filepath.Join(s.TempDir(), "fresh")
	for _, path := range []string{old, fresh} {
		must.Do(t, os.WriteFile(path, []byte("half an object"), 0o666))
	}
	long := time.Now().Add(-25 * time.Hour)
	must.Do(t, os.Chtimes(old, long, long))
	openDir(t, root)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old leftover is still there: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a file that may still be written is gone: %v", err)
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openDir(t, t.TempDir()).(*dir.Store)
	broken := errors.New("the source broke")
	body := struct {
		io.Reader
		io.Seeker
	}{io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), strings.NewReader("")}
	if err := s.Put(t.Context(), "a/b", body, storage.Durable); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Head(t.Context(), "a/b"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("head: %v", err)
	}
	if left, err := os.ReadDir(s.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestEmptyDirectoriesGo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := openDir(t, root)
	must.Do(t, s.Create(t.Context(), "blobs/key/digest", []byte("x")))
	must.Do(t, s.Delete(t.Context(), "blobs/key/digest"))
	if left, err := os.ReadDir(filepath.Join(root, "blobs")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestReadOnlyStoreIsNotWritten(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, must.Get(dir.Open(root))(t).Create(t.Context(), "runs/a/spec", []byte("text")))
	must.Do(t, os.Remove(filepath.Join(root, "~temporary")))
	s := must.Get(dir.OpenReadOnly(root))(t)
	if got := string(must.Get(io.ReadAll(must.Get(s.Get(t.Context(), "runs/a/spec", 0, -1))(t)))(t)); got != "text" {
		t.Errorf("read %q", got)
	}
	for name, write := range map[string]func() error{
		"put":    func() error { return s.Put(t.Context(), "runs/b/spec", strings.NewReader("x"), storage.Durable) },
		"copy":   func() error { return s.Copy(t.Context(), "runs/a/spec", "runs/b/spec", storage.Durable) },
		"create": func() error { return s.Create(t.Context(), "runs/b/spec", nil) },
		"delete": func() error { return s.Delete(t.Context(), "runs/a/spec") },
	} {
		if err := write(); !errors.Is(err, storage.ErrUnsuitable) || !strings.Contains(err.Error(), "this user may only read it") {
			t.Errorf("%s: error %v; expected a refusal", name, err)
		}
	}
	for object, err := range s.List(t.Context(), "") {
		if err != nil || object.Name != "runs/a/spec" {
			t.Errorf("the store has %v, error %v", object, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "~temporary")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was written to: %v", err)
	}
	if _, err := dir.OpenReadOnly(filepath.Join(root, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
