package source

import (
	"cmp"
	"coalmine/internal/encoding"
	"coalmine/tasks/datasets/images"
	"encoding/base64"
	"encoding/json"
)

// Image returns the image of a record read at the image level: its label, or NoLabel, and its
// pixels row by row, channels innermost.
func (r *Record) Image() (label int, pixels []byte) {
	if r.Unlabelled {
		return images.NoLabel, []byte(r.Text)
	}
	return int(r.Text[0]), []byte(r.Text[1:])
}

// TaggedImage returns the tags of a record read at the image level, 0 or 1 each, and its pixels.
func (r *Record) TaggedImage(tags int) (has, pixels []byte) {
	return []byte(r.Text[:tags]), []byte(r.Text[tags:])
}

// imageReader reads the lines of a source of images.
type imageReader struct {
	shape      images.Shape
	tags       []string
	tagged     bool // images have tags in place of a label
	unlabelled bool // images may lack a label
	rules      recordRules
}

// imageLines returns the lineForm of a source read at the image level.
func (r Reading) imageLines() lineForm {
	reader := imageReader{cmp.Or(r.Image, images.Default), r.TagList(), r.Label == TagsLabel, r.Unlabelled, r.recordRules()}
	if r.Label == TagsLabel {
		return lineForm{
			wanted:  `expected {"user": "…", "tags": ["…"], "pixels": "…"} on every line (data.label: tags; "labels" is "tags", too), the pixels in base64, or in their place "image", a PNG or JPEG file in base64`,
			convert: `make such lines by "coalmine data convert", and give each its tags`,
			parse:   reader.parse,
		}
	}
	return lineForm{
		wanted:  `expected {"user": "…", "label": 7, "pixels": "…"} on every line, the pixels in base64, or in their place "image", a PNG or JPEG file in base64`,
		convert: `make such lines by "coalmine data convert"`,
		parse:   reader.parse,
	}
}

// imageFields holds the fields of a line of a source of images.
type imageFields struct {
	User   *string         `json:"user"`
	Text   json.RawMessage `json:"text"`
	Label  *int            `json:"label"`
	Pixels *string         `json:"pixels"`
	Image  *string         `json:"image"`
}

// parse reads the fields of a line: the text of the record is its labels and the pixels.
func (m *imageReader) parse(line []byte) (Record, error) {
	var fields imageFields
	var said labelFields
	err := encoding.UnmarshalJSON(line, &fields)
	if err == nil && m.tagged {
		err = encoding.UnmarshalJSON(line, &said)
	}
	if err := cmp.Or(err, checkUser(fields.User), fields.checkPixels()); err != nil {
		return Record{}, err
	}
	labels, err := m.labels(&fields, &said)
	if err != nil {
		return Record{}, err
	}
	pixels, err := m.pixels(&fields)
	if err != nil {
		return Record{}, err
	}
	return Record{User: *fields.User, Text: string(append(labels, pixels...)), Unlabelled: labels == nil}, nil
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

// labels returns the bytes before the pixels: the label, or nil if it has none; or 0 or 1 for each tag.
func (m *imageReader) labels(f *imageFields, said *labelFields) ([]byte, error) {
	if m.tagged {
		numbers, err := tagsOf(said, m.tags)
		labels := make([]byte, len(m.tags))
		for _, tag := range numbers {
			labels[tag] = 1
		}
		return labels, err
	}
	switch {
	case f.Label == nil && m.unlabelled:
		return nil, nil
	case f.Label == nil:
		return nil, unexpected(`"label" is missing, and nothing says that images may lack one (data.image.unlabelled: true)`)
	case *f.Label < 0 || *f.Label >= m.shape.Classes:
		return nil, badLine(`"label" is %d; expected 0 to %d, one of %d classes (data.image.classes)`, *f.Label, m.shape.Classes-1, m.shape.Classes)
	}
	return []byte{byte(*f.Label)}, nil
}

// pixels decodes "pixels" or "image", whichever is present.
func (m *imageReader) pixels(f *imageFields) ([]byte, error) {
	name, text := "pixels", f.Pixels
	if text == nil {
		name, text = "image", f.Image
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, unexpected("%q is not base64 (%w)", name, err)
	}
	if f.Pixels != nil {
		if len(data) != m.shape.Pixels() {
			return nil, badLine(`"pixels" are %d bytes; expected %d, for %s (data.image)`, len(data), m.shape.Pixels(), m.shape)
		}
		return data, nil
	}
	pixels, err := m.rules.decode(m.shape, data)
	if err != nil {
		return nil, badLine(`"image" is %w (data.image)`, err)
	}
	return pixels, nil
}
