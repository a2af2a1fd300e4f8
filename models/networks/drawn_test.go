package networks

import (
	"compress/gzip"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

const side = 28 // of a picture, in pixels

// segments are those of a digital clock that show each digit: top, upper left, upper
// right, middle, lower left, lower right, bottom.
var segments = [10][7]bool{
	{true, true, true, false, true, true, true},
	{false, false, true, false, false, true, false},
	{true, false, true, true, true, false, true},
	{true, false, true, true, false, true, true},
	{false, true, true, true, false, true, false},
	{true, true, false, true, false, true, true},
	{true, true, false, true, true, true, true},
	{true, false, true, false, false, true, false},
	{true, true, true, true, true, true, true},
	{true, true, true, true, false, true, true},
}

// drawnDigits writes so many digits into a folder, in the files of the handwritten
// ones: of a clock, each with a place, size and thickness of its own, and with noise.
func drawnDigits(t *testing.T, n int) (folder string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	pixels, labels := make([]byte, 0, n*side*side), make([]byte, n)
	for i := range labels {
		labels[i] = byte(rng.IntN(len(segments)))
		pixels = append(pixels, drawDigit(rng, int(labels[i]))...)
	}
	folder = t.TempDir()
	writeIDX(t, filepath.Join(folder, pixelsFile), []uint32{0x803, uint32(n), side, side}, pixels)
	writeIDX(t, filepath.Join(folder, labelsFile), []uint32{0x801, uint32(n)}, labels)
	return folder
}

// drawDigit is a picture of a digit, row by row.
func drawDigit(rng *rand.Rand, digit int) []byte {
	picture := make([]byte, side*side)
	width, half, thick := 8+rng.IntN(4), 8+rng.IntN(3), 2+rng.IntN(2)
	left, top := (side-width-thick)/2+rng.IntN(5)-2, (side-2*half-thick)/2+rng.IntN(5)-2
	fill := func(x, y, w, h int) {
		for row := y; row < y+h; row++ {
			for column := x; column < x+w; column++ {
				picture[row*side+column] = byte(150 + rng.IntN(106))
			}
		}
	}
	for i, on := range segments[digit] {
		switch {
		case !on:
		case i%3 == 0:
			fill(left, top+i/3*half, width+thick, thick)
		case i%3 == 1:
			fill(left, top+i/3*half, thick, half+thick)
		default:
			fill(left+width, top+i/3*half, thick, half+thick)
		}
	}
	for i := range picture {
		picture[i] = max(picture[i], byte(rng.IntN(60)))
	}
	return picture
}

// writeIDX writes a file as those of the handwritten digits are: numbers of 32 bits,
// then the payload, compressed.
func writeIDX(t *testing.T, path string, header []uint32, payload []byte) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	z := gzip.NewWriter(f)
	check(t, binary.Write(z, binary.BigEndian, header))
	check(t, binary.Write(z, binary.BigEndian, payload))
	closing(t, z)
	closing(t, f)
}
