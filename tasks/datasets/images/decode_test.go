package images

import (
	"bytes"
	"coalmine/internal/must"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"testing"
)

func pngOf(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, png.Encode(&out, picture))
	return out.Bytes()
}

func jpegOf(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, jpeg.Encode(&out, picture, &jpeg.Options{Quality: 100}))
	return out.Bytes()
}

func TestColoursAndDepthsAreReduced(t *testing.T) {
	t.Parallel()
	at := image.Rect(0, 0, 2, 1)
	grey, colour := Shape{2, 1, 1, 1}, Shape{2, 1, 3, 1}
	rgb := image.NewNRGBA(at)
	rgb.Set(0, 0, color.NRGBA{200, 100, 50, 255})
	rgb.Set(1, 0, color.NRGBA{255, 255, 255, 51}) // a fifth of white over black
	deep := image.NewGray16(at)
	deep.Set(0, 0, color.Gray16{0x12ff})
	deep.Set(1, 0, color.Gray16{0xff00})
	luma := byte(math.Round(0.299*200 + 0.587*100 + 0.114*50))
	for name, x := range map[string]struct {
		shape Shape
		file  []byte
		want  []byte
	}{
		"colours to grey":  {grey, pngOf(t, rgb), []byte{luma, 51}},
		"colours":          {colour, pngOf(t, rgb), []byte{200, 100, 50, 51, 51, 51}},
		"16 bits":          {grey, pngOf(t, deep), []byte{0x12, 0xff}},
		"grey to colours":  {colour, pngOf(t, deep), []byte{0x12, 0x12, 0x12, 0xff, 0xff, 0xff}},
		"a JPEG of colour": {colour, jpegOf(t, uniform(at, 77)), []byte{77, 77, 77, 77, 77, 77}},
	} {
		got, err := x.shape.Decode(x.file)
		if err != nil || !bytes.Equal(got, x.want) {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, x.want)
		}
	}
}

func uniform(r image.Rectangle, grey byte) image.Image {
	picture := image.NewGray(r)
	for i := range picture.Pix {
		picture.Pix[i] = grey
	}
	return picture
}
