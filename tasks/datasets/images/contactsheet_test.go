package images

import (
	"bytes"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func sized(width, height, channels int) Shape {
	return Shape{Width: width, Height: height, Channels: channels}
}

// Every image can be read back from its place on the sheet, and all else is the gap's grey.
func TestEveryImageStandsInItsPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := sized(rapid.IntRange(1, 90).Draw(t, "width"), rapid.IntRange(1, 50).Draw(t, "height"), rapid.SampledFrom([]int{1, 3}).Draw(t, "channels"))
		n := s.Pixels()
		images := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), n, n), 1, 7).Draw(t, "images")
		columns := rapid.IntRange(1, 4).Draw(t, "columns")
		file := must.Get(s.Sheet(images, columns))(t)
		sheet := must.Get(png.Decode(bytes.NewReader(file)))(t)
		scale, across := s.scale(), min(columns, len(images))
		size := sheet.Bounds().Size()
		if want := gap + across*(s.Width*scale+gap); size.X != want {
			t.Fatalf("a sheet of %v; want a width of %d", size, want)
		}
		for y := range size.Y {
			for x := range size.X {
				want := color.Color(color.RGBA{grey, grey, grey, 255})
				column, inX := place(x, s.Width*scale)
				row, inY := place(y, s.Height*scale)
				if i := row*across + column; inX >= 0 && inY >= 0 && i < len(images) {
					p := images[i][(inY/scale*s.Width+inX/scale)*s.Channels:]
					want = color.RGBA{p[0], p[s.Channels/3], p[s.Channels/3*2], 255}
				}
				if got := color.RGBAModel.Convert(sheet.At(x, y)); got != want {
					t.Fatalf("at %d,%d: %v, want %v", x, y, got, want)
				}
			}
		}
	})
}

func TestAnImageByItselfHasItsValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := sized(rapid.IntRange(1, 9).Draw(t, "width"), rapid.IntRange(1, 9).Draw(t, "height"), rapid.SampledFrom([]int{1, 3}).Draw(t, "channels"))
		n := s.Pixels()
		pixels := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "pixels")
		file := must.Get(s.PNG(pixels))(t)
		picture, err := png.Decode(bytes.NewReader(file))
		if err != nil || picture.Bounds().Dx() != s.Width || picture.Bounds().Dy() != s.Height {
			t.Fatalf("%v, %v; want %d x %d", err, picture.Bounds(), s.Width, s.Height)
		}
		for i := range s.Width * s.Height {
			p := pixels[i*s.Channels:]
			want := color.RGBA{p[0], p[s.Channels/3], p[s.Channels/3*2], 255}
			if got := color.RGBAModel.Convert(picture.At(i%s.Width, i/s.Width)); got != want {
				t.Fatalf("pixel %d: %v, want %v", i, got, want)
			}
		}
	})
	if _, err := sized(3, 1, 1).PNG([]byte{1, 2}); err == nil || !strings.Contains(err.Error(), "has 2 values; expected 3") {
		t.Errorf("two values of three: %v", err)
	}
}

// place says in which tile a pixel is and how far in it, negative in a gap.
func place(x, side int) (tile, in int) {
	return x / (side + gap), x%(side+gap) - gap
}

func TestSheetsThatCannotBeDrawnAreRefused(t *testing.T) {
	t.Parallel()
	two := [][]byte{{1, 2}, {3, 4}}
	for want, c := range map[string]struct {
		images  [][]byte
		s       Shape
		columns int
	}{
		"a sheet of 0 images in 3 columns":                         {nil, sized(2, 1, 1), 3},
		"a sheet of 2 images in 0 columns":                         {two, sized(2, 1, 1), 0},
		"image 1 of a sheet has 3 values; expected 2":              {[][]byte{{1, 2}, {1, 2, 3}}, sized(2, 1, 1), 1},
		"images of 2 x 1 pixels and 2 channels":                    {two, sized(2, 1, 2), 1},
		"images of 0 x 1 pixels":                                   {two, sized(0, 1, 1), 1},
		"expected at most 16384 pixels in either direction":        {[][]byte{make([]byte, 16384)}, sized(16384, 1, 1), 1},
		"a sheet of 1 x 2 images, each 16000 x 1 pixels on it; ex": {[][]byte{make([]byte, 16000), make([]byte, 16000)}, sized(16000, 1, 1), 2},
	} {
		_, err := c.s.Sheet(c.images, c.columns)
		must.Say(t, err, want)
	}
}
