// Package npy writes files that numpy.load reads: the format of NumPy, version 1.0
// (numpy.lib.format).
//
//	file.Write(npy.Bytes(2, 28, 28, 1))
//	file.Write(pixels) // 2 x 28 x 28 bytes, the last index innermost
package npy

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// align is the alignment of the data in a file, in bytes.
const align = 64

// Bytes is the beginning of a file that holds an array of bytes (uint8) of the shape, in C order.
func Bytes(shape ...int) []byte {
	sizes := make([]string, len(shape))
	for i, n := range shape {
		sizes[i] = strconv.Itoa(n)
	}
	tuple := strings.Join(sizes, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	about := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", tuple)
	const before = len("\x93NUMPY\x01\x00") + 2
	about += strings.Repeat(" ", align-1-(before+len(about))%align) + "\n"
	head := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(head[before-2:], uint16(len(about)))
	return append(head, about...)
}
