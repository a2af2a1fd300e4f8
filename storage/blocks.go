package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A reader of a part of a blob cannot verify its digest, which covers the whole blob; a
// wrong byte in the middle of a data set would affect every result unnoticed. So a
// commit holds a CRC-32C of each block of a blob, and parts are read in whole blocks.

const (
	smallestBlock = 64 << 10
	maxBlocks     = 512
	blockSum      = 4 // bytes of a checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockSize returns the block size for a blob of size bytes: the smallest power of two that gives
// at most maxBlocks blocks, so that the checksums are small compared with a commit.
func blockSize(size int64) int64 {
	block := int64(smallestBlock)
	for size > block*maxBlocks {
		block *= 2
	}
	return block
}

// blockSums returns the concatenated checksums of the blocks of data, big-endian.
func blockSums(data []byte) []byte {
	var sums []byte
	block := int(blockSize(int64(len(data))))
	for len(data) > 0 {
		n := min(block, len(data))
		sums = binary.BigEndian.AppendUint32(sums, crc32.Checksum(data[:n], castagnoli))
		data = data[n:]
	}
	return sums
}

// ReadPart returns length bytes of the blob from offset, reading a copy through read. It
// reads whole blocks and checks them, or the whole blob if it has no checksums. A
// mismatch gives an error that wraps ErrCorrupt.
func (b Blob) ReadPart(offset, length int64, read func(from, length int64) ([]byte, error)) ([]byte, error) {
	from, to := b.blocksAround(offset, length)
	data, err := read(from, to-from)
	if err == nil {
		err = b.checkBlocks(from, data)
	}
	if err != nil {
		return nil, err
	}
	return data[offset-from:][:length:length], nil
}

// blocksAround widens a part of a blob to whole blocks.
func (b Blob) blocksAround(offset, length int64) (from, to int64) {
	if len(b.Blocks) == 0 {
		return 0, b.Size // the commit predates checksums
	}
	block := blockSize(b.Size)
	from = offset / block * block
	to = (offset + length + block - 1) / block * block
	return from, min(to, b.Size)
}

// checkStream reads a blob and compares it with its checksums, without keeping it.
func (b Blob) checkStream(r io.Reader) error {
	block := blockSize(b.Size)
	if len(b.Blocks) == 0 {
		block = b.Size // the commit predates checksums
	}
	buffer := make([]byte, min(block, b.Size))
	for from := int64(0); from < b.Size; from += block {
		part := buffer[:min(block, b.Size-from)]
		if n, err := io.ReadFull(r, part); err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, from+int64(n), b.Size)
		} else if err != nil {
			return err
		}
		if err := b.checkBlocks(from, part); err != nil {
			return err
		}
	}
	return noMore(r, b.Size)
}

// checkBlocks compares whole blocks, the first of which begins at from, with their checksums.
func (b Blob) checkBlocks(from int64, data []byte) error {
	if len(b.Blocks) == 0 {
		return b.check(data)
	}
	block := blockSize(b.Size)
	for i := from / block; len(data) > 0; i++ {
		n := min(block, int64(len(data)))
		if int64(len(b.Blocks)) < (i+1)*blockSum {
			return fmt.Errorf("%w: the commit has no checksum of block %d", ErrCorrupt, i)
		}
		want := binary.BigEndian.Uint32(b.Blocks[i*blockSum:])
		if got := crc32.Checksum(data[:n], castagnoli); got != want {
			return fmt.Errorf("%w: block %d has checksum %08x, want %08x", ErrCorrupt, i, got, want)
		}
		data = data[n:]
	}
	return nil
}
