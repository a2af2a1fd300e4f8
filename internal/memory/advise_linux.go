package memory

import (
	"syscall"
	"unsafe"
)

// pageBytes is a multiple of every page size; smaller tables cannot profit.
const pageBytes = 2 << 20

// advise requests large pages for the pages that lie completely within the
// table. A refusal only costs time.
func advise(table []float32) {
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), 4*len(table))
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(data))) % pageBytes)
	if skip := (pageBytes - past) % pageBytes; skip < len(data) {
		data = data[skip:]
		data = data[:len(data)/pageBytes*pageBytes]
		if len(data) > 0 {
			_ = syscall.Madvise(data, syscall.MADV_HUGEPAGE)
		}
	}
}
