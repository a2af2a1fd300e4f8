package dataformats

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// FreeBytes of a file are allowed at any compression ratio.
const FreeBytes = 16 << 20

// smallFile is the size up to which compressed content is inspected completely before it is read.
const smallFile = 256 << 10

// shrinkWindows lowers the windows of a small file's frames to the size that the file can fill,
// because the library allocates them at once: a few bytes could ask for 2 GiB. Content never refers
// back further than its own length, so it stays the same. The window of a single-segment frame is
// the size of its content; a frame that claims more than the file can hold is invalid.
func shrinkWindows(file []byte, most uint64) {
	for len(file) > 18 { // longest header
		if !bytes.HasPrefix(file, zstdMagic) {
			size := 8 + uint64(binary.LittleEndian.Uint32(file[4:]))
			file = file[min(size, uint64(len(file))):]
			continue
		}
		descriptor := file[4]
		single := descriptor&0x20 != 0
		size := file[5+dictionaryBytes(descriptor):]
		switch {
		case !single && windowOf(file[5]) > most:
			file[5] = byte(bits.Len64(most-1)-10) << 3
		case single && descriptor>>6 == 2 && uint64(binary.LittleEndian.Uint32(size)) > most:
			binary.LittleEndian.PutUint32(size, uint32(most))
		case single && descriptor>>6 == 3 && binary.LittleEndian.Uint64(size) > most:
			binary.LittleEndian.PutUint64(size, most)
		}
		file = file[frameSize(file):]
	}
}

// dictionaryBytes is the length of a dictionary ID.
func dictionaryBytes(descriptor byte) int { return [...]int{0, 1, 2, 4}[descriptor&3] }

// windowOf returns the size of a window (RFC 8878 section 3.1.1.1.2).
func windowOf(descriptor byte) uint64 {
	base := uint64(1) << (10 + descriptor>>3)
	return base + base/8*uint64(descriptor&7)
}

// frameSize returns the length of a frame: header, blocks and checksum.
func frameSize(file []byte) int {
	descriptor := file[4]
	at := 5 + dictionaryBytes(descriptor) + [...]int{0, 2, 4, 8}[descriptor>>6]
	switch single := descriptor&0x20 != 0; {
	case !single:
		at++
	case descriptor>>6 == 0:
		at++ // the content size then has a byte
	}
	for last := false; !last; {
		if at+3 > len(file) {
			return len(file)
		}
		head := uint(file[at]) | uint(file[at+1])<<8 | uint(file[at+2])<<16
		last = head&1 != 0
		if at += 3; head>>1&3 == 1 {
			at++ // a repeated byte
		} else {
			at += int(head >> 3)
		}
	}
	if descriptor&4 != 0 {
		at += 4
	}
	return min(at, len(file))
}
