package chart

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"

	"golang.org/x/image/vector"
)

// dotsPerInch is the resolution of PNG files.
const dotsPerInch = 300

// PNG returns the figure as a file that declares 300 dots per inch.
func (f *Figure) PNG(w Width) []byte {
	s := f.scene(w)
	const scale = dotsPerInch / 72.0
	c := &pngCanvas{scale: scale, page: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(s.width*scale)), int(math.Ceil(s.height*scale))))}
	c.path(&path{fill: white, segments: rectangle(0, 0, s.width+1, s.height+1)})
	s.drawOn(c)
	var b bytes.Buffer
	_ = png.Encode(&b, c.page) // a Buffer never fails
	return withResolution(b.Bytes())
}

// headerEnd is where the first chunk of a PNG file ends: 8 bytes of signature, 25 of the header.
const headerEnd = 33

// withResolution adds the chunk pHYs: dots per metre, twice, and the unit.
func withResolution(file []byte) []byte {
	perMetre := uint32(math.Round(dotsPerInch / 0.0254))
	chunk := []byte{'p', 'H', 'Y', 's'}
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = append(binary.BigEndian.AppendUint32(chunk, perMetre), 1)
	out := binary.BigEndian.AppendUint32(bytes.Clone(file[:headerEnd]), uint32(len(chunk)-4)) //nolint:gosec // 9
	out = binary.BigEndian.AppendUint32(append(out, chunk...), crc32.ChecksumIEEE(chunk))
	return append(out, file[headerEnd:]...)
}

type pngCanvas struct {
	page  *image.RGBA
	scale float64
}

func (c *pngCanvas) text(t *text) { c.path(t.outline()) }

func (c *pngCanvas) path(p *path) {
	if p.fill != "" {
		c.fill(flat(p.segments), p.fill)
	}
	if p.stroke == "" {
		return
	}
	var areas [][]point
	for _, line := range flat(p.segments) {
		for _, dash := range dashed(line, p.dash) {
			areas = append(areas, stroked(dash, p.width/2)...)
		}
	}
	c.fill(areas, p.stroke)
}

// fill colours areas, and their overlaps if they run the same way around.
func (c *pngCanvas) fill(areas [][]point, colour string) {
	box := image.Rectangle{Min: c.page.Bounds().Max}
	for _, area := range areas {
		for _, p := range area {
			x, y := int(math.Floor(p.x*c.scale)), int(math.Floor(p.y*c.scale))
			box.Min.X, box.Min.Y = min(box.Min.X, x), min(box.Min.Y, y)
			box.Max.X, box.Max.Y = max(box.Max.X, x+1), max(box.Max.Y, y+1)
		}
	}
	if box = box.Intersect(c.page.Bounds()); box.Empty() {
		return
	}
	r := vector.NewRasterizer(box.Dx(), box.Dy())
	for _, area := range areas {
		for i, p := range area {
			x, y := float32(p.x*c.scale-float64(box.Min.X)), float32(p.y*c.scale-float64(box.Min.Y))
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	v := rgb(colour)
	r.Draw(c.page, box, image.NewUniform(color.RGBA{v[0], v[1], v[2], 255}), image.Point{})
}

// stroked returns the area of a line: a rectangle for each part and a disc at each joint, all
// oriented alike.
func stroked(line []point, half float64) (areas [][]point) {
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if length == 0 {
			continue
		}
		n := point{-(b.y - a.y) / length * half, (b.x - a.x) / length * half}
		areas = append(areas, []point{{a.x - n.x, a.y - n.y}, {b.x - n.x, b.y - n.y}, {b.x + n.x, b.y + n.y}, {a.x + n.x, a.y + n.y}})
		if i > 1 {
			areas = append(areas, flat(circle(a.x, a.y, half))...)
		}
	}
	return areas
}
