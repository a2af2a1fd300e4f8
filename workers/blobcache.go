package workers

import (
	"bytes"
	"context"

	"coalmine/storage"
)

// blobCache caches blobs by digest, in memory and in the disk cache, if there is one.
type blobCache struct {
	memory *cache[storage.Digest, []byte]
	disk   *diskCache // nil without a disk cache
	// readInPart holds the blobs that were read in part, each with size 1.
	readInPart *cache[storage.Digest, struct{}]
}

// maxReadInPart is the number of blobs remembered as read in part.
const maxReadInPart = 10_000

func newBlobCache(memory *budget) *blobCache {
	return &blobCache{
		memory:     newCache[storage.Digest, []byte](memory),
		readInPart: newCache[storage.Digest, struct{}](newBudget(maxReadInPart)),
	}
}

// whole returns a blob from memory, from disk, or from fetch, and caches it.
func (c *blobCache) whole(ctx context.Context, digest storage.Digest, fetch func() ([]byte, error)) ([]byte, error) {
	return c.memory.get(ctx, digest, func() ([]byte, int64, error) {
		if c.disk != nil {
			if data, ok := c.disk.read(digest); ok {
				return data, int64(len(data)), nil
			}
		}
		data, err := fetch()
		if err == nil && c.disk != nil {
			c.disk.add(digest, data)
		}
		return data, int64(len(data)), err
	})
}

// part returns a copy of length bytes from offset of a blob that is cached, or worth caching: one
// that was read in part before, such as the shards from which every round's clients come. Such a
// blob is cached only on disk, so that a data set does not evict the models from memory. ok is
// false if the caller must read the part itself.
func (c *blobCache) part(ctx context.Context, b storage.Blob, offset, length int64, fetch func() ([]byte, error)) (data []byte, ok bool, err error) {
	if data, ok := c.memory.peek(b.Digest); ok {
		c.memory.metrics.looked(true)
		return bytes.Clone(data[offset : offset+length]), true, nil
	}
	if c.disk == nil || b.Size > c.disk.largest() {
		return nil, false, nil
	}
	if data, ok := c.disk.readPart(b, offset, length); ok {
		return data, true, nil
	}
	if _, again := c.readInPart.peek(b.Digest); !again {
		c.readInPart.add(b.Digest, struct{}{}, 1)
		return nil, false, nil
	}
	if err := c.disk.fill(ctx, b.Digest, fetch); err != nil {
		return nil, false, err
	}
	data, ok = c.disk.readPart(b, offset, length)
	return data, ok, nil
}
