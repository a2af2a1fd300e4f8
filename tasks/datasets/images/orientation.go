package images

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
)

// orientation is the EXIF orientation of a picture (JEITA CP-3451, tag 0x0112): 1 is upright, 2 to 8
// are mirrored or turned. 0 and other numbers count as 1.
type orientation uint16

// turned reports whether rows and columns change places.
func (o orientation) turned() bool { return 5 <= o && o <= 8 }

// at returns the stored position of the pixel displayed at x and y, for a picture with the given
// stored width and height.
func (o orientation) at(x, y, width, height int) (column, row int) {
	if o.turned() {
		x, y = y, x // along the main diagonal
	}
	if o == 2 || o == 3 || o == 7 || o == 8 {
		x = width - 1 - x
	}
	if o == 3 || o == 4 || o == 6 || o == 7 {
		y = height - 1 - y
	}
	return x, y
}

// oriented is a picture displayed by its orientation.
type oriented struct {
	image.Image
	orientation
}

// Bounds implements image.Image. They begin at 0, 0.
func (p oriented) Bounds() image.Rectangle {
	size := p.Image.Bounds().Size()
	if p.turned() {
		size.X, size.Y = size.Y, size.X
	}
	return image.Rectangle{Max: size}
}

func (p oriented) At(x, y int) color.Color {
	stored := p.Image.Bounds()
	column, row := p.at(x, y, stored.Dx(), stored.Dy())
	return p.Image.At(stored.Min.X+column, stored.Min.Y+row)
}

// orientationOf returns the orientation of a PNG or JPEG file; 1 if the file has none or an invalid
// one.
func orientationOf(file []byte) orientation {
	exif := pngEXIF
	if isJPEG(file) {
		exif = jpegEXIF
	}
	return tiffOrientation(exif(file))
}

// Oriented reports whether a PNG or JPEG file has an orientation other than upright.
func Oriented(file []byte) bool { return orientationOf(file) > 1 }

// jpegEXIF returns the TIFF structure of the APP1 segment with EXIF data, or nil.
func jpegEXIF(file []byte) []byte {
	const (
		app1        = 0xe1
		startOfScan = 0xda
	)
	exif := []byte("Exif\x00\x00")
	for rest := file[2:]; len(rest) >= 4 && rest[0] == 0xff; {
		if rest[1] == 0xff { // a fill byte
			rest = rest[1:]
			continue
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if rest[1] == startOfScan || length < 2 || len(rest) < 2+length {
			return nil
		}
		if segment := rest[4 : 2+length]; rest[1] == app1 && bytes.HasPrefix(segment, exif) {
			return segment[len(exif):]
		}
		rest = rest[2+length:]
	}
	return nil
}

// pngEXIF returns the TIFF structure of the chunk eXIf, or nil.
func pngEXIF(file []byte) []byte {
	for rest := file[8:]; len(rest) >= 12; {
		length := uint64(binary.BigEndian.Uint32(rest))
		if length > uint64(len(rest)-12) {
			return nil
		}
		if string(rest[4:8]) == "eXIf" {
			return rest[8 : 8+length]
		}
		rest = rest[12+length:]
	}
	return nil
}

// tiffOrientation finds the orientation in the first directory of a TIFF structure (TIFF 6.0,
// section 2): 2 bytes for the byte order, 2 for the number 42, 4 for the offset of the directory;
// the directory has 2 bytes for the number of its entries, and 12 for each entry: tag, type, count,
// value.
func tiffOrientation(tiff []byte) orientation {
	const tag, short = 0x0112, 3
	var order binary.ByteOrder = binary.BigEndian
	switch {
	case len(tiff) < 8:
		return 1
	case string(tiff[:2]) == "II":
		order = binary.LittleEndian
	}
	start := uint64(order.Uint32(tiff[4:]))
	if start+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[start+2:]
	for range order.Uint16(tiff[start:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			return max(1, orientation(order.Uint16(entries[8:])))
		}
		entries = entries[12:]
	}
	return 1
}
