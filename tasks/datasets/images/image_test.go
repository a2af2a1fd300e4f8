package images

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// stored is a grey picture of 3 x 2 pixels, all different.
func stored() *image.Gray {
	return &image.Gray{Pix: []byte{10, 20, 30, 40, 50, 60}, Stride: 3, Rect: image.Rect(0, 0, 3, 2)}
}

// sides say where the first row and the first column of a stored picture are to be seen (JEITA
// CP-3451, tag 0x0112).
var sides = [9][2]string{
	1: {"top", "left"}, 2: {"top", "right"}, 3: {"bottom", "right"}, 4: {"bottom", "left"},
	5: {"left", "top"}, 6: {"right", "top"}, 7: {"right", "bottom"}, 8: {"left", "bottom"},
}

// seen puts each stored pixel where it is to be seen.
func seen(p *image.Gray, o int) (width, height int, pixels []byte) {
	columns, rows := p.Rect.Dx(), p.Rect.Dy()
	if width, height = columns, rows; o > 4 {
		width, height = rows, columns
	}
	pixels = make([]byte, width*height)
	for r := range rows {
		for c := range columns {
			var x, y int
			for side, at := range map[string]int{sides[o][0]: r, sides[o][1]: c} {
				switch side {
				case "top":
					y = at
				case "bottom":
					y = height - 1 - at
				case "left":
					x = at
				case "right":
					x = width - 1 - at
				}
			}
			pixels[y*width+x] = p.GrayAt(c, r).Y
		}
	}
	return width, height, pixels
}

// tiff is an EXIF structure with the orientation behind another entry.
func tiff(order binary.AppendByteOrder, o int) []byte {
	out := []byte("MM")
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		out = []byte("II")
	}
	out = order.AppendUint32(order.AppendUint16(out, 42), 8)
	out = order.AppendUint16(out, 2)
	for _, e := range [][2]uint16{{0x0100, 7}, {0x0112, uint16(o)}} {
		out = order.AppendUint16(order.AppendUint32(order.AppendUint16(order.AppendUint16(out, e[0]), 3), 1), e[1])
		out = append(out, 0, 0)
	}
	return order.AppendUint32(out, 0)
}

// chunk is one of a PNG file.
func chunk(name string, data []byte) []byte {
	out := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), name...)
	out = append(out, data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

// withChunk has chunks behind the header of a PNG file.
func withChunk(file []byte, chunks ...[]byte) []byte {
	const header = 8 + 12 + 13
	return bytes.Join(append(append([][]byte{file[:header]}, chunks...), file[header:]), nil)
}

// withEXIF has the structure in the first segment but one of a JPEG file.
func withEXIF(t *testing.T, p image.Image, exif []byte) []byte {
	t.Helper()
	plain := string(jpegOf(t, p))
	segment := func(marker byte, data string) string {
		return string(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(2+len(data)))) + data
	}
	return []byte(plain[:2] + segment(0xe0, "JFIF\x00") + segment(0xe1, "http://ns.adobe.com/xap/1.0/\x00") + segment(0xe1, "Exif\x00\x00"+string(exif)) + plain[2:])
}

func TestDecodeFollowsEXIFOrientation(t *testing.T) {
	t.Parallel()
	for o := 1; o <= 8; o++ {
		width, height, want := seen(stored(), o)
		shape := Shape{Width: width, Height: height, Channels: 1, Classes: 1}
		for name, file := range map[string][]byte{
			"PNG, big-endian":    withChunk(pngOf(t, stored()), chunk("eXIf", tiff(binary.BigEndian, o))),
			"PNG, little-endian": withChunk(pngOf(t, stored()), chunk("eXIf", tiff(binary.LittleEndian, o))),
			"JPEG":               withEXIF(t, stored(), tiff(binary.BigEndian, o)),
		} {
			w, h, err := Size(file)
			if err != nil || w != width || h != height {
				t.Errorf("%s, orientation %d: %d x %d (%v), want %d x %d", name, o, w, h, err, width, height)
			}
			got, err := shape.Decode(file)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s, orientation %d: %v (%v)", name, o, got, err)
			}
			for i := range want {
				if math.Abs(float64(got[i])-float64(want[i])) > 2 {
					t.Errorf("%s, orientation %d: pixels %v, want %v", name, o, got, want)
					break
				}
			}
		}
	}
}

// Unreadable EXIF data leave the picture as it lies and cause no error.
func TestDamagedEXIFIsIgnored(t *testing.T) {
	t.Parallel()
	shape := Shape{Width: 3, Height: 2, Channels: 1, Classes: 1}
	whole := tiff(binary.BigEndian, 6)
	far := append(append([]byte("MM\x00*"), 0xff, 0xff, 0xff, 0xff), whole[8:]...)
	for i, exif := range [][]byte{nil, whole[:7], far, tiff(binary.BigEndian, 0), tiff(binary.BigEndian, 9)} {
		if got, err := shape.Decode(withChunk(pngOf(t, stored()), chunk("eXIf", exif))); err != nil || !bytes.Equal(got, stored().Pix) {
			t.Errorf("case %d: %v, %v", i, got, err)
		}
	}
	for cut := range whole {
		_ = tiffOrientation(whole[:cut])
	}
	file := withEXIF(t, stored(), whole)
	for cut := 2; cut < len(file); cut++ {
		_, _, _ = Size(file[:cut])
		_ = orientationOf(file[:cut])
	}
}

func TestPNGFilesOfAllKindsAreRead(t *testing.T) {
	t.Parallel()
	deep := image.NewGray16(image.Rect(0, 0, 3, 2))
	colours := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Gray{10}, color.Gray{20}, color.Gray{30}, color.Gray{40}, color.Gray{50}, color.Gray{60}})
	for i, v := range stored().Pix {
		deep.SetGray16(i%3, i/3, color.Gray16{uint16(v)<<8 | 0x7f})
		colours.SetColorIndex(i%3, i/3, uint8(i))
	}
	plain := pngOf(t, stored())
	for name, file := range map[string][]byte{
		"16 bits":    pngOf(t, deep),
		"palette":    pngOf(t, colours),
		"gamma":      withChunk(plain, chunk("gAMA", binary.BigEndian.AppendUint32(nil, 100000))),
		"animated":   withChunk(plain, chunk("acTL", make([]byte, 8)), chunk("fcTL", make([]byte, 26))),
		"interlaced": interlaced(t),
	} {
		got, err := Shape{Width: 3, Height: 2, Channels: 1, Classes: 1}.Decode(file)
		if err != nil || !bytes.Equal(got, stored().Pix) {
			t.Errorf("%s: %v (%v), want %v", name, got, err, stored().Pix)
		}
	}
}

// interlaced is the picture in the passes of Adam7: of 3 x 2 pixels those with (0, 0), (2, 0),
// (1, 0), and the second row.
func interlaced(t *testing.T) []byte {
	t.Helper()
	var data bytes.Buffer
	z := zlib.NewWriter(&data)
	p := stored().Pix
	must.Get(z.Write([]byte{0, p[0], 0, p[2], 0, p[1], 0, p[3], p[4], p[5]}))(t)
	must.Do(t, z.Close())
	header := []byte{0, 0, 0, 3, 0, 0, 0, 2, 8, 0, 0, 0, 1}
	return bytes.Join([][]byte{[]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", header), chunk("IDAT", data.Bytes()), chunk("IEND", nil)}, nil)
}

// The files are of cjpeg (libjpeg-turbo 2.1.5) and, of CMYK, Pillow: a picture of 16 x 16 pixels, red
// to the right, green downwards, and a blue patch above on the left.
func TestJPEGFilesOfAllKindsAreReadOrNamed(t *testing.T) {
	t.Parallel()
	file := func(name string) []byte {
		return must.Get(os.ReadFile(filepath.Join("testdata", "jpeg", name+".jpg")))(t)
	}
	shape := Shape{Width: 16, Height: 16, Channels: 3, Classes: 1}
	for _, name := range []string{"444", "422", "440", "420", "411", "410", "progressive", "rgb", "cmyk", "cmyk-black", "ycck"} {
		got, err := shape.Decode(file(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		off := 0.0
		for i, v := range got {
			x, y, want := i/3%16, i/48, 0
			switch {
			case i%3 == 0:
				want = 16 * x
			case i%3 == 1:
				want = 16 * y
			case x < 4 && y < 8:
				want = 255
			}
			off += math.Abs(float64(v)-float64(want)) / float64(len(got))
		}
		if off > 12 { // of 4:1:0, whose colours are those of eight pixels
			t.Errorf("%s is off by %.1f on average", name, off)
		}
	}
	if got, err := shape.Decode(file("grey")); err != nil || got[0] != got[1] || got[1] != got[2] {
		t.Errorf("grey: %v, %v", got[:3], err)
	}
	deep := file("444")
	frame := bytes.Index(deep, []byte{0xff, 0xc0})
	deep[frame+4] = 12
	lossless := file("444")
	lossless[frame+1] = 0xc3
	for want, data := range map[string][]byte{
		"with arithmetic coding, which is not supported":                                  file("arithmetic"),
		"with 4 components and no Adobe marker, so that their colours are unknown, which": file("cmyk-plain"),
		"with the sampling factors 1x4, 1x1, 1x1, which":                                  file("1x4"),
		"with the sampling factors 1x1, 2x1, 2x1, which":                                  file("chroma"),
		"with 12 bits a sample, which is not supported":                                   deep,
		"with lossless coding, which is not supported":                                    lossless,
		"a damaged file (unexpected EOF)":                                                 file("444")[:300],
	} {
		_, err := shape.Decode(data)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "which") == strings.Contains(err.Error(), "damaged") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHugePictureIsRejectedBeforeDecoding(t *testing.T) {
	t.Parallel()
	huge := pngOf(t, stored())
	binary.BigEndian.PutUint32(huge[16:], 1<<20)
	binary.BigEndian.PutUint32(huge[20:], 1<<20)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	wide := withEXIF(t, stored(), nil)
	frame := bytes.Index(wide, []byte{0xff, 0xc0})
	copy(wide[frame+5:], "\xff\xff\xff\xff")
	for name, file := range map[string][]byte{"PNG": huge, "JPEG": wide} {
		if _, err := (Shape{Width: 3, Height: 2, Channels: 1, Classes: 1}).Decode(file); err == nil || !strings.Contains(err.Error(), "pixels; expected 3 x 2") {
			t.Errorf("%s: %v, want its size", name, err)
		}
	}
}

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

func sized(width, height, channels int) Shape {
	return Shape{Width: width, Height: height, Channels: channels}
}

// Every image can be read back from its place on the sheet, and all else is the gap's grey.
func TestSheetKeepsEveryImage(t *testing.T) {
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

func TestSheetsThatCannotBeDrawnAreRejected(t *testing.T) {
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
