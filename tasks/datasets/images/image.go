// Package images decodes pictures of one shape, and turns an image into the sentence that a model
// sees: its label, then its pixels. It draws images as PNG files for people.
package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/datasets/text"
)

// Shape is the size of the images of a source, and their number of classes. All images of a source
// have one shape. The zero value stands for Default.
type Shape struct {
	// Width and Height are in pixels, at least 1.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Channels is 1 for grey, 3 for red, green and blue.
	Channels int `json:"channels"`
	// Classes is the number of labels, 0 to Classes-1; 1 to MaxClasses.
	Classes int `json:"classes"`
}

// Tag is a tag with the number of images that have it.
type Tag struct {
	Tag    string `json:"tag"`
	Images int    `json:"images"`
}

// Default is the shape of MNIST and of the digits of EMNIST (LeCun et al. 1998; Cohen
// et al. 2017).
var Default = Shape{Width: 28, Height: 28, Channels: 1, Classes: 10}

// Bounds of a Shape.
const (
	// MaxPixels is the largest width x height x channels of an image.
	MaxPixels = 64 * 64 * 3
	// MaxClasses is the number of labels in a byte.
	MaxClasses = 256
)

// Pixels returns the number of values of an image: width x height x channels.
func (m Shape) Pixels() int { return m.Width * m.Height * m.Channels }

// String returns "28 x 28 pixels of 1 channel".
func (m Shape) String() string {
	if m.Channels == 1 {
		return fmt.Sprintf("%d x %d pixels of 1 channel", m.Width, m.Height)
	}
	return fmt.Sprintf("%d x %d pixels of %d channels", m.Width, m.Height, m.Channels)
}

func (m Shape) Check() error {
	switch {
	case m.Channels != 1 && m.Channels != 3:
		return fmt.Errorf("images of %d channels; expected 1 (grey) or 3 (red, green and blue)", m.Channels)
	case m.Width < 1 || m.Height < 1 || m.Width > MaxPixels || m.Height > MaxPixels || m.Pixels() > MaxPixels:
		return fmt.Errorf("images of %d x %d pixels and %d channels; expected at least 1 x 1, and at most %d values in all", m.Width, m.Height, m.Channels, MaxPixels)
	case m.Classes < 1 || m.Classes > MaxClasses:
		return fmt.Errorf("%d classes of images; expected 1 to %d", m.Classes, MaxClasses)
	}
	return nil
}

// Decode reads a PNG or JPEG file of the shape and returns its pixels: row by row, channels
// innermost, 0 to 255. It checks the size before decoding anything else. Values of 16 bits keep
// their upper 8. A single channel of a colour picture is the luma of JFIF, 0.299 red + 0.587 green
// + 0.114 blue; the three channels of a grey picture are equal. Transparent pixels lie on black.
// The picture is first turned and mirrored by its EXIF orientation. An animated PNG is read as its
// default image; gamma and colour profile are not applied.
func (m Shape) Decode(file []byte) (pixels []byte, err error) {
	return m.decode(file, orientationOf, imageError)
}

// DecodeStored is Decode by FirstRules: it ignores the orientation.
func (m Shape) DecodeStored(file []byte) (pixels []byte, err error) {
	upright := func([]byte) orientation { return 1 }
	return m.decode(file, upright, damagedImage)
}

// decode reads a file. lies returns the orientation of a file, and explain the error for a fault.
func (m Shape) decode(file []byte, lies func([]byte) orientation, explain func([]byte, error) error) (pixels []byte, err error) {
	width, height, err := imageSize(file, lies, explain)
	if err != nil {
		return nil, err
	}
	if width != m.Width || height != m.Height {
		return nil, fmt.Errorf("%d x %d pixels; expected %d x %d", width, height, m.Width, m.Height)
	}
	decode := png.Decode
	if isJPEG(file) {
		decode = jpeg.Decode
	}
	picture, err := decode(bytes.NewReader(file))
	if err != nil {
		return nil, explain(file, err)
	}
	if o := lies(file); o > 1 {
		picture = oriented{picture, o}
	}
	return m.pixelsOf(picture), nil
}

// Size reads only the size of a PNG or JPEG file, in pixels, after turning the picture by its
// EXIF orientation.
func Size(file []byte) (width, height int, err error) {
	return imageSize(file, orientationOf, imageError)
}

func imageSize(file []byte, lies func([]byte) orientation, explain func([]byte, error) error) (width, height int, err error) {
	sizeOf := png.DecodeConfig
	if isJPEG(file) {
		sizeOf = jpeg.DecodeConfig
	} else if !bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")) {
		return 0, 0, errors.New("neither a PNG nor a JPEG file")
	}
	size, err := sizeOf(bytes.NewReader(file))
	if err != nil {
		return 0, 0, explain(file, err)
	}
	if lies(file).turned() {
		return size.Height, size.Width, nil
	}
	return size.Width, size.Height, nil
}

// imageError explains why a file cannot be decoded: damage or an unsupported feature.
func imageError(file []byte, err error) error {
	if _, ok := errors.AsType[jpeg.UnsupportedError](err); ok {
		return fmt.Errorf("a JPEG file with %s, which is not supported; save it again as baseline or progressive JPEG of 8 bits, or as PNG", jpegFeature(file, err))
	}
	if _, ok := errors.AsType[png.UnsupportedError](err); ok {
		return fmt.Errorf("a PNG file with a feature that is not supported (%w); save it again", err)
	}
	return damagedImage(file, err)
}

func damagedImage(_ []byte, err error) error { return fmt.Errorf("a damaged file (%w)", err) }

// jpegFrames are the frame markers (ITU-T T.81, table B.1) of codings that are not supported.
var jpegFrames = map[byte]string{
	0xc3: "lossless coding", 0xc5: "hierarchical coding", 0xc6: "hierarchical coding", 0xc7: "lossless coding",
	0xc9: "arithmetic coding", 0xca: "arithmetic coding", 0xcb: "lossless coding", 0xcd: "hierarchical coding",
	0xce: "hierarchical coding", 0xcf: "lossless coding", 0xf7: "lossless coding (JPEG-LS)",
}

// jpegFeature names the unsupported feature of a JPEG file.
func jpegFeature(file []byte, err error) string {
	for rest := file[2:]; len(rest) >= 10 && rest[0] == 0xff; {
		marker, length := rest[1], int(binary.BigEndian.Uint16(rest[2:]))
		frame := marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
		switch {
		case jpegFrames[marker] != "":
			return jpegFrames[marker]
		case marker == 0xff:
			rest = rest[1:]
			continue
		case frame && rest[4] != 8:
			return fmt.Sprintf("%d bits a sample", rest[4])
		case frame:
			return frameFeature(rest, err)
		case len(rest) < 2+length:
			return err.Error()
		}
		rest = rest[2+length:]
	}
	return err.Error()
}

// frameFeature names the unsupported feature of a frame with 8 bits and a supported coding: the
// sampling factors of its components, horizontal x vertical.
func frameFeature(frame []byte, err error) string {
	components := int(frame[9])
	if strings.Contains(err.Error(), "Adobe") {
		return fmt.Sprintf("%d components and no Adobe marker, so that their colours are unknown", components)
	}
	if !strings.Contains(err.Error(), "subsampling") || len(frame) < 10+3*components {
		return fmt.Sprintf("%d components (%v)", components, err)
	}
	factors := lists.Make(components, func(i int) string {
		hv := frame[10+3*i+1]
		return fmt.Sprintf("%dx%d", hv>>4, hv&15)
	})
	return "the sampling factors " + strings.Join(factors, ", ")
}

func isJPEG(file []byte) bool { return bytes.HasPrefix(file, []byte("\xff\xd8")) }

// pixelsOf returns the values of a picture of the right size.
func (m Shape) pixelsOf(picture image.Image) []byte {
	pixels := make([]byte, 0, m.Pixels())
	at := picture.Bounds().Min
	for y := range m.Height {
		for x := range m.Width {
			c := picture.At(at.X+x, at.Y+y)
			if m.Channels == 1 {
				pixels = append(pixels, color.GrayModel.Convert(c).(color.Gray).Y)
				continue
			}
			red, green, blue, _ := c.RGBA()
			pixels = append(pixels, byte(red>>8), byte(green>>8), byte(blue>>8))
		}
	}
	return pixels
}

// NoLabel is the label of an image without one.
const NoLabel = -1

// OfSentence divides a sentence at the image level, with one label: the label, or NoLabel, and the
// pixels row by row, channels innermost.
func OfSentence(sentence []int32) (label int, pixels []byte) {
	words := sentence[1 : 1+text.WordsOf(sentence)]
	if label = NoLabel; words[0] != text.Unknown {
		label = int(words[0] - text.FirstWord)
	}
	pixels = make([]byte, len(words)-1)
	for i, w := range words[1:] {
		pixels[i] = byte(w - text.FirstWord)
	}
	return label, pixels
}

// Sentence returns the sentence of an image, the inverse of OfSentence.
func Sentence(label int, pixels []byte) []int32 {
	sentence := []int32{text.Begin, text.Unknown}
	if label != NoLabel {
		sentence[1] = text.FirstWord + int32(label)
	}
	for _, p := range pixels {
		sentence = append(sentence, text.FirstWord+int32(p))
	}
	return sentence
}
