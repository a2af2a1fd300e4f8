package datasets

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"

	"coalmine/internal/encoding"
)

// Image is the shape of the images of a source, and their number of classes. All images of a source
// have one shape. The zero value stands for DefaultImage.
type Image struct {
	// Width and Height are in pixels, at least 1.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Channels is 1 for grey, 3 for red, green and blue.
	Channels int `json:"channels"`
	// Classes is the number of labels, 0 to Classes-1; 1 to MaxClasses.
	Classes int `json:"classes"`
}

// DefaultImage is the shape of MNIST and of the digits of EMNIST (LeCun et al. 1998; Cohen
// et al. 2017).
var DefaultImage = Image{Width: 28, Height: 28, Channels: 1, Classes: 10}

// Bounds of Image.
const (
	// MaxPixels is the largest width x height x channels of an image.
	MaxPixels = 64 * 64 * 3
	// MaxClasses is the number of labels in a byte.
	MaxClasses = 256
)

// Pixels returns the number of values of an image: width x height x channels.
func (m Image) Pixels() int { return m.Width * m.Height * m.Channels }

// String returns "28 x 28 pixels of 1 channel".
func (m Image) String() string {
	if m.Channels == 1 {
		return fmt.Sprintf("%d x %d pixels of 1 channel", m.Width, m.Height)
	}
	return fmt.Sprintf("%d x %d pixels of %d channels", m.Width, m.Height, m.Channels)
}

// Check returns an error for an invalid shape.
func (m Image) Check() error {
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
func (m Image) Decode(file []byte) (pixels []byte, err error) {
	return m.decode(file, orientationOf, imageError)
}

// decodeStored is Decode by FirstRules: it ignores the orientation.
func (m Image) decodeStored(file []byte) (pixels []byte, err error) {
	upright := func([]byte) orientation { return 1 }
	return m.decode(file, upright, damagedImage)
}

// decode reads a file with the orientation from lies, and explains faults with the other function.
func (m Image) decode(file []byte, lies func([]byte) orientation, explain func([]byte, error) error) (pixels []byte, err error) {
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

// ImageSize reads only the size of a PNG or JPEG file, in pixels, after turning the picture by its
// EXIF orientation.
func ImageSize(file []byte) (width, height int, err error) {
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
	factors := make([]string, components)
	for i := range factors {
		hv := frame[10+3*i+1]
		factors[i] = fmt.Sprintf("%dx%d", hv>>4, hv&15)
	}
	return "the sampling factors " + strings.Join(factors, ", ")
}

func isJPEG(file []byte) bool { return bytes.HasPrefix(file, []byte("\xff\xd8")) }

// pixelsOf returns the values of a picture of the right size.
func (m Image) pixelsOf(picture image.Image) []byte {
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

// Image returns the image of a record read at the image level: its label, or NoLabel, and its
// pixels row by row, channels innermost.
func (r *Record) Image() (label int, pixels []byte) {
	if r.Unlabelled {
		return NoLabel, []byte(r.Text)
	}
	return int(r.Text[0]), []byte(r.Text[1:])
}

// ImageOf divides a sentence at the image level, with one label: the label, or NoLabel, and the
// pixels row by row, channels innermost.
func ImageOf(sentence []int32) (label int, pixels []byte) {
	words := sentence[1 : 1+WordsOf(sentence)]
	if label = NoLabel; words[0] != Unknown {
		label = int(words[0] - FirstWord)
	}
	pixels = make([]byte, len(words)-1)
	for i, w := range words[1:] {
		pixels[i] = byte(w - FirstWord)
	}
	return label, pixels
}

// ImageSentence returns the sentence of an image, the inverse of ImageOf.
func ImageSentence(label int, pixels []byte) []int32 {
	sentence := []int32{Begin, Unknown}
	if label != NoLabel {
		sentence[1] = FirstWord + int32(label)
	}
	for _, p := range pixels {
		sentence = append(sentence, FirstWord+int32(p))
	}
	return sentence
}

// TaggedImage returns the tags of a record read at the image level, 0 or 1 each, and its pixels.
func (r *Record) TaggedImage(tags int) (has, pixels []byte) {
	return []byte(r.Text[:tags]), []byte(r.Text[tags:])
}

// imageLines returns the lineForm of a source read at the image level.
func (r Reading) imageLines() lineForm {
	image := cmp.Or(r.Image, DefaultImage)
	if r.Label == TagsLabel {
		return image.taggedLines(r.TagList(), r.recordRules())
	}
	return image.lines(r.Unlabelled, r.recordRules())
}

// lines returns the lineForm of a source of images of the shape. With unlabelled, images may lack a
// label.
func (m Image) lines(unlabelled bool, rules recordRules) lineForm {
	return lineForm{
		wanted:  `expected {"user": "…", "label": 7, "pixels": "…"} on every line, the pixels in base64, or in their place "image", a PNG or JPEG file in base64`,
		convert: `make such lines by "coalmine data convert"`,
		parse:   func(line []byte) (Record, error) { return m.parse(line, unlabelled, rules) },
	}
}

// taggedLines returns the lineForm of a source of images of the shape, each with a list of tags.
func (m Image) taggedLines(tags []string, rules recordRules) lineForm {
	form := m.lines(false, rules)
	form.wanted = `expected {"user": "…", "tags": ["…"], "pixels": "…"} on every line (data.label: tags; "labels" is "tags", too), the pixels in base64, or in their place "image", a PNG or JPEG file in base64`
	form.convert = `make such lines by "coalmine data convert", and give each its tags`
	form.parse = func(line []byte) (Record, error) { return m.parseTagged(line, tags, rules) }
	return form
}

// parseTagged reads the fields of a line: the text of the record is 0 or 1 for each tag, and
// the pixels.
func (m Image) parseTagged(line []byte, tags []string, rules recordRules) (Record, error) {
	var fields imageFields
	var said labelFields
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	if err := encoding.UnmarshalJSON(line, &said); err != nil {
		return Record{}, err
	}
	if err := checkUser(fields.User); err != nil {
		return Record{}, err
	}
	if err := fields.checkPixels(); err != nil {
		return Record{}, err
	}
	numbers, err := tagsOf(&said, tags)
	if err != nil {
		return Record{}, err
	}
	pixels, err := m.pixels(&fields, rules)
	if err != nil {
		return Record{}, err
	}
	text := make([]byte, len(tags), len(tags)+len(pixels))
	for _, tag := range numbers {
		text[tag] = 1
	}
	return Record{User: *fields.User, Text: string(append(text, pixels...))}, nil
}

// imageFields holds the fields of a line of a source of images.
type imageFields struct {
	User   *string         `json:"user"`
	Text   json.RawMessage `json:"text"`
	Label  *int            `json:"label"`
	Pixels *string         `json:"pixels"`
	Image  *string         `json:"image"`
}

func (m Image) parse(line []byte, unlabelled bool, rules recordRules) (Record, error) {
	var fields imageFields
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	if err := checkUser(fields.User); err != nil {
		return Record{}, err
	}
	if err := m.checkLabel(&fields, unlabelled); err != nil {
		return Record{}, err
	}
	pixels, err := m.pixels(&fields, rules)
	if err != nil {
		return Record{}, err
	}
	if fields.Label == nil {
		return Record{User: *fields.User, Text: string(pixels), Unlabelled: true}, nil
	}
	return Record{User: *fields.User, Text: string(append([]byte{byte(*fields.Label)}, pixels...))}, nil
}

// checkPixels returns an error for an image that is missing or given twice.
func (f *imageFields) checkPixels() error {
	switch {
	case f.Pixels == nil && f.Image == nil && f.Text != nil:
		return unexpected("the line is a text, and the source is read as images (data.level: image)")
	case f.Pixels == nil && f.Image == nil:
		return unexpected(`both "pixels" and "image" are missing`)
	case f.Pixels != nil && f.Image != nil:
		return unexpected(`"pixels" stand beside "image"; give one of them`)
	}
	return nil
}

func (m Image) checkLabel(f *imageFields, unlabelled bool) error {
	if err := f.checkPixels(); err != nil {
		return err
	}
	switch {
	case f.Label == nil && unlabelled:
		return nil
	case f.Label == nil:
		return unexpected(`"label" is missing, and nothing says that images may lack one (data.image.unlabelled: true)`)
	case *f.Label < 0 || *f.Label >= m.Classes:
		return badLine(`"label" is %d; expected 0 to %d, one of %d classes (data.image.classes)`, *f.Label, m.Classes-1, m.Classes)
	}
	return nil
}

// pixels decodes "pixels" or "image", whichever is present.
func (m Image) pixels(f *imageFields, rules recordRules) ([]byte, error) {
	name, text := "pixels", f.Pixels
	if text == nil {
		name, text = "image", f.Image
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, unexpected("%q is not base64 (%w)", name, err)
	}
	if f.Pixels != nil {
		if len(data) != m.Pixels() {
			return nil, badLine(`"pixels" are %d bytes; expected %d, for %s (data.image)`, len(data), m.Pixels(), m)
		}
		return data, nil
	}
	pixels, err := rules.decode(m, data)
	if err != nil {
		return nil, badLine(`"image" is %w (data.image)`, err)
	}
	return pixels, nil
}
