//go:build linux

package endtoend_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"coalmine/internal/must"
	"coalmine/storage"
)

// blobFiles are the blobs in the store, as files in the order of their names.
func (a *arena) blobFiles() []string {
	return must.Get(filepath.Glob(filepath.Join(a.objects, "blobs", "*", "*")))(a.t)
}

// harmBlob harms the file of one blob behind the server's back. One that nobody
// reads again stays as it is: only reading shows the harm.
func harmBlob(harm func(path string) error) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		files := a.blobFiles()
		if len(files) == 0 {
			return nil
		}
		path := files[r.IntN(len(files))]
		if harm(path) != nil {
			return nil // it has gone meanwhile, or nothing can be written now
		}
		a.harmed[path] = true
		a.note("harmed %s", path)
		return done
	}
}

func deleteFile(path string) error { return os.Remove(path) }

func truncateFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()/2)
}

// flipFile changes a byte in place, so that size and attributes stay.
func flipFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], info.Size()/2); err != nil {
		return err
	}
	b[0] ^= 0x20
	_, err = f.WriteAt(b[:], info.Size()/2)
	return err
}

// cutPower kills everything at once, and tears files that versitygw, which never
// syncs, had not yet on disk. Redis loses as little as any server that syncs.
func cutPower(a *arena, r *rand.Rand) func() {
	if len(a.claimed) > 0 {
		return nil
	}
	a.claim(a.redis)
	a.claim(a.s3)
	for _, m := range a.members {
		a.claim(m)
		m.kill()
	}
	a.s3.Kill()
	a.redis.Kill()
	a.tearNewest(r)
	return func() {
		a.redis.Restart()
		a.s3.Restart()
		clear(a.claimed)
		for _, m := range a.members {
			m.start()
		}
	}
}

// Bounds of the files that a power cut tears.
const (
	maxTorn     = 8
	notOnDisk   = 500 * time.Millisecond
	tornToEmpty = 3 // one in this number is left without a byte
)

// tearNewest truncates the newest commits and blobs.
func (a *arena) tearNewest(r *rand.Rand) {
	newest := a.newestFiles()
	for _, path := range newest[:min(len(newest), r.IntN(maxTorn+1))] {
		info := must.Get(os.Stat(path))(a.t)
		size := int64(0)
		if info.Size() > 0 && r.IntN(tornToEmpty) > 0 {
			size = r.Int64N(info.Size())
		}
		must.Do(a.t, os.Truncate(path, size))
		a.note("tore %s", path)
	}
}

// newestFiles are the commits and blobs of the last moment, newest first.
func (a *arena) newestFiles() []string {
	written := map[string]time.Time{}
	newest := time.Time{}
	for _, top := range []string{"commits", "blobs"} {
		_ = filepath.WalkDir(filepath.Join(a.objects, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil // none of them yet
			}
			if info, err := e.Info(); err == nil {
				written[path] = info.ModTime()
				if info.ModTime().After(newest) {
					newest = info.ModTime()
				}
			}
			return nil
		})
	}
	var files []string
	for path, at := range written {
		if newest.Sub(at) < notOnDisk {
			files = append(files, path)
		}
	}
	slices.SortFunc(files, func(x, y string) int { return written[y].Compare(written[x]) })
	return files
}

// storeBytes is the size of the file system of a directory store: far more than
// the experiment takes.
const storeBytes = "size=64m"

// mountStore makes a directory a file system of its own, and reports whether it
// may. Without that it cannot become full or read-only for root.
func mountStore(t testing.TB, dir string) bool {
	if exec.Command("mount", "-t", "tmpfs", "-o", storeBytes, "tmpfs", dir).Run() != nil {
		return false
	}
	t.Cleanup(func() {
		// A process that was killed a moment ago may still be going.
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return true
}

func remountReadOnly(a *arena, _ *rand.Rand) func() {
	if !a.mounted || !a.claim(a.objects) {
		return nil
	}
	// It is refused while a file is open for writing.
	for range 50 {
		if unix.Mount("", a.objects, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") == nil {
			return func() {
				a.release(a.objects)
				must.Do(a.t, unix.Mount("", a.objects, "", unix.MS_REMOUNT, storeBytes))
			}
		}
		time.Sleep(time.Millisecond)
	}
	a.release(a.objects)
	return nil
}

// fillDisk writes a file beside the objects until nothing more fits.
func fillDisk(a *arena, _ *rand.Rand) func() {
	if !a.mounted || !a.claim(a.objects) {
		return nil
	}
	ballast, err := ballastIn(a.objects)
	if err != nil {
		a.release(a.objects)
		return nil
	}
	return func() {
		a.release(a.objects)
		must.Do(a.t, os.Remove(ballast))
	}
}

// ballastIn fills the file system of a directory with a file, whose path it returns.
func ballastIn(dir string) (string, error) {
	ballast := filepath.Join(dir, "~ballast")
	f, err := os.Create(ballast)
	if err != nil {
		return "", err
	}
	for _, size := range []int{64 << 10, 1} { // and then the last page
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
	}
	return ballast, f.Close()
}

// wasHarmed reports whether the test itself has harmed a blob.
func (a *arena) wasHarmed(key storage.Key, digest storage.Digest) bool {
	return a.harmed[filepath.Join(a.objects, "blobs", key.String(), digest.String())]
}
