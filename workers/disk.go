package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"coalmine/storage"
)

// diskCache stores blobs as files named by their digests. The directory may be
// shared and may be emptied at any time: a missing or damaged blob is fetched
// again. Each process limits only the files it knows.
type diskCache struct {
	dir   string
	log   *slog.Logger
	files *cache[storage.Digest, struct{}]
	// metrics count the lookups; the metrics of files count only its size.
	metrics cacheMetrics
	// warned is set while writing fails, so that a failure is logged once.
	warned atomic.Bool
}

const (
	partialSuffix = ".partial"
	// partialAge is the age from which a partial file counts as abandoned.
	partialAge = time.Hour
)

// openDiskCache makes the directory if necessary and adopts its files.
func openDiskCache(dir string, capacity int64, log *slog.Logger) (*diskCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache directory %s cannot be made; name another by --cache: %w", dir, err)
	}
	c := &diskCache{dir: dir, log: log, files: newCache[storage.Digest, struct{}](newBudget(capacity))}
	c.files.evicted = func(d storage.Digest) { _ = os.Remove(c.path(d)) }
	return c, c.adopt()
}

// countIn counts lookups and size, beginning with the adopted files.
func (c *diskCache) countIn(m cacheMetrics) {
	c.metrics, c.files.metrics.bytes = m, m.bytes
	m.holds(c.files.size)
}

// adopt indexes the existing files; the newest counts as last used.
func (c *diskCache) adopt() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("cache directory %s cannot be read; name another by --cache: %w", c.dir, err)
	}
	var found []fs.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, info := range found {
		digest, err := storage.ParseDigest(info.Name())
		if err == nil {
			c.files.add(digest, struct{}{}, info.Size())
		} else if strings.HasSuffix(info.Name(), partialSuffix) && time.Since(info.ModTime()) > partialAge {
			_ = os.Remove(filepath.Join(c.dir, info.Name()))
		}
	}
	return nil
}

func (c *diskCache) path(d storage.Digest) string { return filepath.Join(c.dir, d.String()) }

// largest returns the size of the largest blob worth caching: one that leaves room for others.
func (c *diskCache) largest() int64 { return c.files.budget.capacity / 4 }

// read returns a checked blob.
func (c *diskCache) read(digest storage.Digest) (data []byte, ok bool) {
	defer func() { c.metrics.looked(ok) }()
	if _, ok := c.files.peek(digest); !ok {
		return nil, false
	}
	data, err := os.ReadFile(c.path(digest))
	if err == nil && storage.DigestOf(data) != digest {
		err = storage.ErrCorrupt
	}
	return data, c.sound(digest, err)
}

// readPart returns length bytes from offset of a blob, checked: a disk may
// damage data after a correct read.
func (c *diskCache) readPart(b storage.Blob, offset, length int64) (data []byte, ok bool) {
	defer func() { c.metrics.looked(ok) }()
	if _, ok := c.files.peek(b.Digest); !ok {
		return nil, false
	}
	data, err := b.ReadPart(offset, length, func(from, length int64) ([]byte, error) {
		return readFilePart(c.path(b.Digest), from, length)
	})
	return data, c.sound(b.Digest, err)
}

// sound reports whether a file was read without error. It removes a damaged
// one, and logs it, because a failing disk damages more.
func (c *diskCache) sound(digest storage.Digest, err error) bool {
	if err == nil {
		return true
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("a file of the cache directory is damaged; its blob is read from the store again", "file", c.path(digest), "error", err)
	}
	c.files.remove(digest)
	return false
}

func readFilePart(path string, offset, length int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(f, offset, length), data)
	return data, err
}

// fill fetches a missing blob, once for all concurrent callers.
func (c *diskCache) fill(ctx context.Context, digest storage.Digest, fetch func() ([]byte, error)) error {
	_, err := c.files.get(ctx, digest, func() (none struct{}, size int64, err error) {
		data, err := fetch()
		if err != nil {
			return none, 0, err
		}
		if !c.keep(digest, data) {
			return none, 0, errNotKept
		}
		return struct{}{}, int64(len(data)), nil
	})
	if errors.Is(err, errNotKept) {
		return nil // the caller finds no file and reads from the store
	}
	return err
}

var errNotKept = errors.New("blob could not be kept on disk")

func (c *diskCache) add(digest storage.Digest, data []byte) {
	if int64(len(data)) <= c.largest() && c.keep(digest, data) {
		c.files.add(digest, struct{}{}, int64(len(data)))
	}
}

// keep writes the file and reports whether it succeeded.
func (c *diskCache) keep(digest storage.Digest, data []byte) bool {
	err := c.write(digest, data)
	if err != nil && !c.warned.Swap(true) {
		c.log.Warn("cannot write to the cache directory; tasks go on without it", "directory", c.dir, "error", err)
	} else if err == nil {
		c.warned.Store(false)
	}
	return err == nil
}

// write makes the file appear atomically. It need not survive a power cut: a
// torn file fails the check of every read.
func (c *diskCache) write(digest storage.Digest, data []byte) error {
	f, err := os.CreateTemp(c.dir, digest.Short()+"-*"+partialSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path(digest))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
