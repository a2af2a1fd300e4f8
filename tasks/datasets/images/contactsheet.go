package images

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
)

const (
	// gap is the space around each image, in pixels of the sheet. It is middle grey, so that
	// both white and black images have visible edges.
	gap  = 4
	grey = 0x80
	// tile is about the length of an image's longer side on the sheet, in pixels: a small
	// image is enlarged by a whole number.
	tile = 84
	// maxSide bounds a sheet, in pixels.
	maxSide = 1 << 14
)

// Sheet returns a PNG file for people with the images in rows of the given number of columns, from left
// to right. An image is its pixels, row by row, channels innermost, 0 to 255.
func (m Shape) Sheet(images [][]byte, columns int) ([]byte, error) {
	if err := m.checkSheet(images, columns); err != nil {
		return nil, err
	}
	scale := m.scale()
	columns = min(columns, len(images))
	rows := (len(images) + columns - 1) / columns
	step := image.Pt(m.Width*scale+gap, m.Height*scale+gap)
	if step.X*columns+gap > maxSide || step.Y*rows+gap > maxSide {
		return nil, fmt.Errorf("a sheet of %d x %d images, each %d x %d pixels on it; expected at most %d pixels in either direction", rows, columns, step.X-gap, step.Y-gap, maxSide)
	}
	sheet := m.blank(image.Rect(0, 0, step.X*columns+gap, step.Y*rows+gap))
	for i, pixels := range images {
		at := image.Pt(gap+i%columns*step.X, gap+i/columns*step.Y)
		m.draw(sheet, pixels, at, scale)
	}
	return encode(sheet)
}

// PNG returns an image as a PNG file of the same size, with unchanged values.
func (m Shape) PNG(pixels []byte) ([]byte, error) {
	if err := m.checkSheet([][]byte{pixels}, 1); err != nil {
		return nil, err
	}
	picture := m.blank(image.Rect(0, 0, m.Width, m.Height))
	m.draw(picture, pixels, image.Point{}, 1)
	return encode(picture)
}

func encode(picture image.Image) ([]byte, error) {
	var out bytes.Buffer
	err := png.Encode(&out, picture)
	return out.Bytes(), err
}

func (m Shape) checkSheet(images [][]byte, columns int) error {
	if m.Width < 1 || m.Height < 1 || m.Width > maxSide || m.Height > maxSide || m.Channels != 1 && m.Channels != 3 {
		return fmt.Errorf("a sheet of images of %d x %d pixels and %d channels; expected 1 to %d pixels in either direction, and 1 or 3 channels", m.Width, m.Height, m.Channels, maxSide)
	}
	if len(images) == 0 || columns < 1 {
		return fmt.Errorf("a sheet of %d images in %d columns; expected at least one of both", len(images), columns)
	}
	for i, pixels := range images {
		if want := m.Pixels(); len(pixels) != want {
			return fmt.Errorf("image %d of a sheet has %d values; expected %d", i, len(pixels), want)
		}
	}
	return nil
}

// scale returns the factor that enlarges images.
func (m Shape) scale() int { return max(1, tile/max(m.Width, m.Height)) }

func (m Shape) blank(bounds image.Rectangle) draw.Image {
	var sheet draw.Image = image.NewRGBA(bounds)
	if m.Channels == 1 {
		sheet = image.NewGray(bounds)
	}
	draw.Draw(sheet, bounds, image.NewUniform(color.Gray{Y: grey}), image.Point{}, draw.Src)
	return sheet
}

func (m Shape) draw(sheet draw.Image, pixels []byte, at image.Point, scale int) {
	for y := range m.Height * scale {
		for x := range m.Width * scale {
			p := pixels[(y/scale*m.Width+x/scale)*m.Channels:]
			if m.Channels == 1 {
				sheet.Set(at.X+x, at.Y+y, color.Gray{Y: p[0]})
			} else {
				sheet.Set(at.X+x, at.Y+y, color.RGBA{R: p[0], G: p[1], B: p[2], A: 0xff})
			}
		}
	}
}
