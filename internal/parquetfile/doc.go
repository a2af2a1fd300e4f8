// Package parquetfile reads columns of Parquet files that may be damaged or hostile. It compares
// every number of a file with the available bytes before using it: memory is at most proportional
// to the size of a page, and no file causes a panic. The format is defined by
// https://github.com/apache/parquet-format. An *UnsupportedError rejects encryption, columns in
// other files, and obsolete encodings and codecs (BIT_PACKED, LZO, LZ4 with Hadoop's frames).
//
//	f, err := parquetfile.Open(file, size, ratio)
//	for g := range f.Groups() {
//		column := f.Read(g, leaf) // of f.Leaves()
//		for range f.Rows(g) {
//			v, err := column.Next()
//			…
//		}
//	}
package parquetfile

import "fmt"

// UnsupportedError names a feature of a file that this package does not read.
type UnsupportedError struct{ Feature string }

func (e *UnsupportedError) Error() string { return e.Feature + ", which is not supported" }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, args...)}
}
