package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// Caches with one budget must keep the entries used last of all caches, within the
// budget, as a plain list of accesses predicts.
func TestCachesKeepRecentlyUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBudget(rapid.Int64Range(0, 20).Draw(t, "capacity"))
		caches := []*cache[int, int]{newCache[int, int](b), newCache[int, int](b)}
		sizes := map[int]int64{}
		var recent []int // used last at the end
		touch := func(key int) {
			recent = append(slices.DeleteFunc(recent, func(k int) bool { return k == key }), key)
			total := int64(0)
			for i := len(recent) - 1; i >= 0; i-- {
				if total += sizes[recent[i]]; total > b.capacity {
					recent = slices.Delete(recent, 0, i+1)
					return
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 8).Draw(t, "key")
			had := slices.Contains(recent, key)
			loaded := false
			v, err := caches[key%2].get(context.Background(), key, func() (int, int64, error) {
				loaded = true
				sizes[key] = rapid.Int64Range(0, 25).Draw(t, "size")
				return -key, sizes[key], nil
			})
			if err != nil || v != -key {
				t.Fatalf("get(%d) = %d, %v", key, v, err)
			}
			if loaded == had {
				t.Fatalf("get(%d) loaded: %v, kept before: %v", key, loaded, had)
			}
			touch(key)
			entries := len(caches[0].entries) + len(caches[1].entries)
			if b.used > b.capacity || b.used != caches[0].size+caches[1].size || entries != len(recent) || b.order.Len() != len(recent) {
				t.Fatalf("caches of %d bytes hold %d in %d entries, want %v", b.capacity, b.used, entries, recent)
			}
		}
		b.clear()
		if b.used != 0 || b.order.Len() != 0 || len(caches[0].entries) != 0 || len(caches[1].entries) != 0 {
			t.Fatalf("%d bytes in %d entries are left of what was cleared", b.used, b.order.Len())
		}
	})
}

func TestCacheLoadsOnceAtATime(t *testing.T) {
	t.Parallel()
	m := newMemo(newBudget(100))
	var loads atomic.Int64
	release := make(chan struct{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			v, err := m.Get("model", func() (any, int64, error) {
				loads.Add(1)
				<-release
				return "decoded", 10, nil
			})
			if err != nil || v != "decoded" {
				t.Errorf("Get = %v, %v", v, err)
			}
		})
	}
	close(release)
	all.Wait()
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}

func TestFailedLoadIsRetriedByWaiters(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("cancelled") },
		"panic": func() error { panic("broken file") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCache[string, int](newBudget(100))
			begun, proceed := make(chan struct{}), make(chan struct{})
			var first sync.WaitGroup
			first.Go(func() {
				defer func() { _ = recover() }()
				_, err := c.get(context.Background(), "k", func() (int, int64, error) {
					close(begun)
					<-proceed
					return 0, 0, fail()
				})
				if err == nil {
					t.Error("the first load succeeded")
				}
			})
			<-begun
			var second sync.WaitGroup
			second.Go(func() {
				v, err := c.get(context.Background(), "k", func() (int, int64, error) { return 7, 1, nil })
				if v != 7 || err != nil {
					t.Errorf("the second get = %d, %v", v, err)
				}
			})
			close(proceed)
			first.Wait()
			second.Wait()
		})
	}
}

func TestCacheWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	c := newCache[string, int](newBudget(100))
	begun, proceed := make(chan struct{}), make(chan struct{})
	var loader sync.WaitGroup
	loader.Go(func() {
		_, _ = c.get(context.Background(), "k", func() (int, int64, error) {
			close(begun)
			<-proceed
			return 1, 1, nil
		})
	})
	<-begun
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("not wanted"))
	if _, err := c.get(ctx, "k", nil); err == nil || err.Error() != "not wanted" {
		t.Errorf("error %v", err)
	}
	close(proceed)
	loader.Wait()
}

// shelf is a place to fetch blobs from that counts how often it is asked.
type shelf struct {
	data    []byte
	fetches int
}

func (s *shelf) fetch() ([]byte, error) {
	s.fetches++
	return s.data, nil
}

func newShelf(i int) *shelf { return &shelf{data: expand(1000, []byte{byte(i)})} }

func (s *shelf) digest() storage.Digest { return storage.DigestOf(s.data) }

// blob is its entry in a commit from before checksums of blocks.
func (s *shelf) blob() storage.Blob {
	return storage.Blob{Name: "b", Digest: s.digest(), Size: int64(len(s.data))}
}

func diskCacheOf(t *testing.T, dir string, capacity int64) *blobCache {
	t.Helper()
	disk := must.Get(openDiskCache(dir, capacity, slog.New(slog.DiscardHandler)))(t)
	c := newBlobCache(newBudget(0)) // nothing in memory
	c.disk = disk
	return c
}

func wantWhole(t *testing.T, c *blobCache, s *shelf, fetches int) {
	t.Helper()
	data, err := c.whole(context.Background(), s.digest(), s.fetch)
	if err != nil || !slices.Equal(data, s.data) {
		t.Errorf("whole = %d bytes, %v", len(data), err)
	}
	if s.fetches != fetches {
		t.Errorf("%d fetches, want %d", s.fetches, fetches)
	}
}

func TestDiskCacheSurvivesRestartAndChecksFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := newShelf(1), newShelf(2)
	c := diskCacheOf(t, dir, 1<<20)
	wantWhole(t, c, a, 1)
	wantWhole(t, c, b, 1)
	wantWhole(t, c, a, 1)

	// A power cut tears one file; a crash leaves a partial one, and an old one.
	must.Do(t, os.Truncate(filepath.Join(dir, a.digest().String()), 10))
	for name, age := range map[string]time.Duration{"new.partial": 0, "old.partial": 2 * partialAge} {
		path := filepath.Join(dir, name)
		then := time.Now().Add(-age)
		must.Do(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)))
	}
	c = diskCacheOf(t, dir, 1<<20)
	wantWhole(t, c, a, 2)
	wantWhole(t, c, b, 1)
	wantWhole(t, c, a, 2)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) != 1 {
		t.Errorf("partial files %v, want the new one alone", left)
	}
}

func TestDiskCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := diskCacheOf(t, dir, 4500)
	for i := range 20 {
		wantWhole(t, c, newShelf(i), 1)
	}
	if files, _ := os.ReadDir(dir); len(files) != 4 {
		t.Errorf("%d files of 1000 bytes in a cache of 4500", len(files))
	}
	c = diskCacheOf(t, dir, 2500) // and smaller next time
	if files, _ := os.ReadDir(dir); len(files) != 2 || c.disk.files.size != 2000 {
		t.Errorf("%d files of 1000 bytes in a cache of 2500", len(files))
	}
	large := &shelf{data: expand(2000, []byte("large"))}
	wantWhole(t, c, large, 1)
	wantWhole(t, c, large, 2) // not worth pushing everything out
}

func TestRepeatedPartialReadIsCachedOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newShelf(1)
	read := func(c *blobCache, wantOK bool, fetches int) {
		t.Helper()
		data, ok, err := c.part(context.Background(), s.blob(), 100, 50, s.fetch)
		if err != nil || ok != wantOK || ok && !slices.Equal(data, s.data[100:150]) || s.fetches != fetches {
			t.Errorf("part = %d bytes, %v, %v after %d fetches; want ok %v after %d", len(data), ok, err, s.fetches, wantOK, fetches)
		}
	}
	c := diskCacheOf(t, dir, 1<<20)
	read(c, false, 0)
	read(c, true, 1)
	read(c, true, 1)
	c = diskCacheOf(t, dir, 1<<20) // another process
	read(c, true, 1)
	must.Do(t, os.Remove(filepath.Join(dir, s.digest().String())))
	read(c, false, 1) // another worker emptied the directory
	read(c, true, 2)
	read(newBlobCache(newBudget(1<<20)), false, 2) // no disk, nothing in memory
}

// The bit is flipped after the file was read and found good, as a disk does it.
func TestFlippedBitOnDiskIsDetected(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	rapid.Check(t, func(t *rapid.T) {
		s := &shelf{data: expand(rapid.IntRange(storage.MaxInline+1, 300<<10).Draw(t, "size"), []byte("flip"))}
		size := int64(len(s.data))
		b := must.Get(archive.PutBlob(context.Background(), storage.Key{Digest: s.digest()}, "b", s.data, storage.Recomputable))(t)
		if rapid.Bool().Draw(t, "from before checksums") {
			b.Blocks = nil
		}
		dir := must.Get(os.MkdirTemp("", "coalmine-cache-"))(t)
		defer os.RemoveAll(dir)
		disk := must.Get(openDiskCache(dir, 4<<20, slog.New(slog.DiscardHandler)))(t)
		c := newBlobCache(newBudget(0))
		c.disk = disk
		read := func(offset, length int64) (ok bool) {
			data, ok, err := c.part(context.Background(), b, offset, length, s.fetch)
			if err != nil || ok && !slices.Equal(data, s.data[offset:offset+length]) {
				t.Fatalf("bytes %d to %d are wrong (%v)", offset, offset+length, err)
			}
			return ok
		}
		read(0, 1)
		if !read(0, size) || s.fetches != 1 {
			t.Fatalf("the blob is not on disk after %d fetches", s.fetches)
		}
		flipped := rapid.Int64Range(0, size-1).Draw(t, "flipped byte")
		flipBit(t, filepath.Join(dir, b.Digest.String()), flipped)
		offset := rapid.Int64Range(0, flipped).Draw(t, "offset")
		length := rapid.Int64Range(flipped-offset+1, size-offset).Draw(t, "length")
		if !read(offset, length) || s.fetches != 2 {
			t.Fatalf("a damaged part was not fetched again: %d fetches", s.fetches)
		}
		if !read(0, size) || s.fetches != 2 {
			t.Fatalf("the blob was not repaired: %d fetches", s.fetches)
		}
	})
}

func flipBit(t *rapid.T, path string, at int64) {
	data := must.Get(os.ReadFile(path))(t)
	data[at] ^= 1 << (at % 8)
	must.Do(t, os.WriteFile(path, data, 0o600))
}

func TestUnwritableDiskCacheIsBypassed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	c := diskCacheOf(t, dir, 1<<20)
	must.Do(t, os.RemoveAll(dir))
	s := newShelf(1)
	wantWhole(t, c, s, 1)
	wantWhole(t, c, s, 2)
	for range 3 {
		if _, ok, err := c.part(context.Background(), s.blob(), 0, 1, s.fetch); ok || err != nil {
			t.Errorf("part = %v, %v", ok, err)
		}
	}
	if _, err := openDiskCache("/dev/null/x", 1, nil); err == nil {
		t.Error("a cache below a file was opened")
	}
}

func TestJournalsAreBounded(t *testing.T) {
	t.Parallel()
	var b boundedBuffer
	line := expand(1000, []byte("x"))
	for range maxJournal {
		if n, err := b.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(b.bytes()); n > maxJournal+100 {
		t.Errorf("%d bytes kept", n)
	}
}

func TestWorkerIDsAreObjectNames(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "node-1.example.com", "Gerät/7 ü", fmt.Sprintf("%0200d", 7)} {
		id := newWorkerID(host)
		if err := storage.CheckName(id); err != nil || len(id) > 100 {
			t.Errorf("worker ID %q of host %q: %v", id, host, err)
		}
		if newWorkerID(host) == id {
			t.Errorf("worker ID %q came twice", id)
		}
	}
}
