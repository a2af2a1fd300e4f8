// This file writes files that numpy.load reads: the format of NumPy, version 1.0 (numpy.lib.format).
//
//	file.Write(dataformats.NPYBytes(2, 28, 28, 1))
//	file.Write(pixels) // 2 x 28 x 28 bytes, the last index innermost

package dataformats

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"coalmine/internal/lists"
)

const (
	// align is the alignment of the data in a file, in bytes.
	align = 64
	magic = "\x93NUMPY\x01\x00"
	// before is the length of magic and of the header's length.
	before = len(magic) + 2
)

// NPYBytes returns the header of a file that holds an array of bytes (uint8) of the shape, in C order.
func NPYBytes(shape ...int) []byte { return header("|u1", shape) }

// NPYFloats returns a file with an array of float32 of the shape, in C order.
func NPYFloats(values []float32, shape ...int) []byte {
	file, err := binary.Append(header("<f4", shape), binary.LittleEndian, values)
	if err != nil {
		panic(err) // float32 have a fixed size
	}
	return file
}

// ReadNPYFloats returns the values of a file of NPYFloats with n values.
func ReadNPYFloats(file []byte, n int) ([]float32, error) {
	if len(file) < before || len(file) != before+int(binary.LittleEndian.Uint16(file[before-2:]))+4*n {
		return nil, fmt.Errorf("a file of %d float32 has %d bytes", n, len(file))
	}
	values := make([]float32, n)
	_, err := binary.Decode(file[len(file)-4*n:], binary.LittleEndian, values)
	return values, err
}

func header(kind string, shape []int) []byte {
	tuple := strings.Join(lists.Map(shape, strconv.Itoa), ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	about := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, tuple)
	about += strings.Repeat(" ", align-1-(before+len(about))%align) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(about))), about...)
}
