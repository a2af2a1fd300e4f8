// Package conversion converts data sets of images to sources of images: JSON lines with a user, a label
// and pixels. Each input form has a function that yields Examples, and Convert writes them:
//
//	IDX      MNIST's files, with a table of writers (QMNIST)
//	TFF      TensorFlow Federated's EMNIST, an SQLite database
//	LEAF     LEAF's FEMNIST, JSON with users' images as lists of numbers
//	Parquet  a table with the bytes of PNG or JPEG files
//	Folder   PNG or JPEG files, and a table of paths, users and labels
//
// Texts makes a source of texts from text files: a folder or a file for each user.
//
// Memory does not grow with the images, except for their labels and the names of users.
package conversion

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"coalmine/tasks/datasets/images"
)

// Example is an image with its label and its user.
type Example struct {
	User  string
	Label int
	// Unlabelled reports whether the image has no label. Label is then 0.
	Unlabelled bool
	// Tags are the labels if images have several labels, or nil.
	Tags []string
	// File is a PNG or JPEG file. If it is nil, Pixels are the values of a grey image of Width x Height,
	// row by row, from 0 to 255.
	File, Pixels  []byte
	Width, Height int
	// Where is the position for messages, such as "digits.csv, row 7".
	Where string
}

// Examples are read one after another, and are valid until the next. More examples may follow a
// *CorruptError; any other error ends them.
type Examples = iter.Seq2[Example, error]

// examples yields the examples of read, and then its error. read returns nil if yield returns false.
func examples(read func(yield func(Example, error) bool) error) Examples {
	return func(yield func(Example, error) bool) {
		if err := read(yield); err != nil {
			yield(Example{}, err)
		}
	}
}

// inFiles yields the examples of several files, one after another. more reports whether yield wants the
// examples of the next file.
func inFiles(paths []string, read func(path string, yield func(Example, error) bool) (more bool, err error)) Examples {
	return examples(func(yield func(Example, error) bool) error {
		for _, path := range paths {
			if more, err := read(path, yield); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

// CorruptError is a fault of one image. Other images can be read.
type CorruptError struct {
	Where string
	Err   error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s: %v", e.Where, e.Err) }

func (e *CorruptError) Unwrap() error { return e.Err }

// Options configures the conversion of images. The zero value keeps their pixels, in grey.
type Options struct {
	// Shape is the shape of the images. A Width of 0 means the size of the first image, and 0 Channels mean
	// 1. Labels of Classes or more are errors; 0 Classes allow all labels.
	Shape images.Shape
	// Invert makes black white and white black.
	Invert bool
	// IgnoreCase maps the 62 classes of EMNIST's letters and digits to 36: small letters (36 to 61) get the
	// labels of capital letters.
	IgnoreCase bool
	// Unlabelled allows images without a label.
	Unlabelled bool
	// SkipCorrupt skips images that cannot be read.
	SkipCorrupt bool
}

// Summary describes the converted data.
type Summary struct {
	// Shape is the shape of the images, with the number of classes.
	images.Shape
	Images int `json:"images"`
	Users  int `json:"users"`
	// Unlabelled is the number of images without a label.
	Unlabelled int `json:"unlabelled,omitempty"`
	// Tags lists the tags of images, the most frequent first, then by name. It is nil if images have labels.
	Tags []images.Tag `json:"tags,omitempty"`
	// Skips counts the images that could not be read.
	Skips
}

// Skips counts the skipped records. FirstSkipped lists the first faults.
type Skips struct {
	Skipped      int      `json:"skipped"`
	FirstSkipped []string `json:"first_skipped,omitempty"`
}

func (s *Skips) add(fault string) {
	if s.Skipped++; s.Skipped <= maxSkippedNamed {
		s.FirstSkipped = append(s.FirstSkipped, fault)
	}
}

// Limits of a conversion.
const (
	maxSkippedNamed = 5
	// IgnoreCase maps the allCharacters classes of EMNIST to withoutCase classes.
	allCharacters, withoutCase = 62, 36
)

// Convert writes examples as JSON lines. The same examples give the same bytes.
func Convert(examples Examples, to io.Writer, o Options) (*Summary, error) {
	o.Shape.Channels = cmp.Or(o.Shape.Channels, 1)
	buffered := bufio.NewWriterSize(to, 1<<16)
	c := converter{Options: o, lines: json.NewEncoder(buffered), users: map[string]bool{}, tags: map[string]int{}}
	for example, err := range examples {
		if err == nil {
			err = c.add(&example)
		}
		if err = c.skip(err); err != nil {
			return nil, err
		}
	}
	if c.found.Images == 0 {
		return nil, fmt.Errorf("found no readable image (%d skipped); expected at least one", c.found.Skipped)
	}
	c.found.Shape, c.found.Users = c.Shape, len(c.users)
	c.found.Classes = cmp.Or(c.found.Classes, c.greatest+1)
	c.found.Tags = mostFrequent(c.tags)
	return &c.found, buffered.Flush()
}

// converter is one conversion.
type converter struct {
	Options
	lines    *json.Encoder
	users    map[string]bool
	tags     map[string]int // number of images
	greatest int            // greatest label
	found    Summary
}

// line is a line of a source.
type line struct {
	User   string   `json:"user"`
	Label  *int     `json:"label,omitempty"` // nil if unlabelled
	Tags   []string `json:"tags,omitzero"`   // nil if there is a label
	Pixels []byte   `json:"pixels"`
}

func mostFrequent(counts map[string]int) []images.Tag {
	var tags []images.Tag
	for tag, n := range counts {
		tags = append(tags, images.Tag{Tag: tag, Images: n})
	}
	slices.SortFunc(tags, func(a, b images.Tag) int { return cmp.Or(b.Images-a.Images, cmp.Compare(a.Tag, b.Tag)) })
	return tags
}

func (c *converter) add(x *Example) error {
	label, err := c.labelOf(x)
	if err != nil {
		return err
	}
	if x.User == "" || !utf8.ValidString(x.User) {
		return fmt.Errorf("%s: the user is %q; expected a name in UTF-8", x.Where, x.User)
	}
	pixels, err := c.pixels(x)
	if err != nil {
		return &CorruptError{x.Where, err}
	}
	c.found.Images++
	c.users[x.User] = true
	c.count(x, label)
	return c.lines.Encode(line{x.User, label, x.Tags, pixels})
}

// labelOf returns the label of an image, or nil.
func (c *converter) labelOf(x *Example) (*int, error) {
	switch {
	case x.Tags != nil || x.Unlabelled && c.Options.Unlabelled:
		return nil, nil
	case x.Unlabelled:
		return nil, fmt.Errorf("%s: the label is empty; expected a whole number (--unlabelled allows images without a label)", x.Where)
	case c.IgnoreCase && (x.Label < 0 || x.Label >= allCharacters):
		return nil, fmt.Errorf("%s: the label is %d; expected 0 to %d, EMNIST's digits, capital and small letters", x.Where, x.Label, allCharacters-1)
	}
	label := x.Label
	if c.IgnoreCase && label >= withoutCase {
		label -= allCharacters - withoutCase
	}
	if classes := cmp.Or(c.Shape.Classes, images.MaxClasses); label < 0 || label >= classes {
		return nil, fmt.Errorf("%s: the label is %d; expected 0 to %d", x.Where, label, classes-1)
	}
	return &label, nil
}

// count counts the label or the tags of an image.
func (c *converter) count(x *Example, label *int) {
	switch {
	case label != nil:
		c.greatest = max(c.greatest, *label)
	case x.Tags == nil:
		c.found.Unlabelled++
	}
	for _, tag := range x.Tags {
		c.tags[tag]++
	}
}

// skip counts an unreadable image if Options.SkipCorrupt is set. It returns other errors.
func (c *converter) skip(err error) error {
	corrupt, ok := errors.AsType[*CorruptError](err)
	if !ok {
		return err
	}
	if !c.SkipCorrupt {
		return fmt.Errorf("%w; repair or remove the image, or skip such images (--skip-corrupt)", err)
	}
	c.found.Skips.add(corrupt.Error())
	return nil
}

// pixels returns the pixels of an example, in the common shape.
func (c *converter) pixels(x *Example) ([]byte, error) {
	pixels := x.Pixels
	if x.File != nil {
		if err := c.shapeOfFile(x.File); err != nil {
			return nil, err
		}
		decoded, err := c.Shape.Decode(x.File)
		if err != nil {
			return nil, fmt.Errorf("the image is %w", err)
		}
		pixels = decoded
	} else if err := c.fits(x.Width, x.Height); err != nil {
		return nil, err
	}
	if c.Invert {
		for i := range pixels {
			pixels[i] = math.MaxUint8 - pixels[i]
		}
	}
	return pixels, nil
}

// shapeOfFile sets the common size to that of the first image.
func (c *converter) shapeOfFile(file []byte) error {
	if c.Shape.Width > 0 {
		return nil
	}
	width, height, err := images.Size(file)
	if err != nil {
		return fmt.Errorf("the image is %w", err)
	}
	return c.setShape(width, height)
}

func (c *converter) setShape(width, height int) error {
	shape := images.Shape{Width: width, Height: height, Channels: c.Shape.Channels, Classes: 1}
	if err := shape.Check(); err != nil {
		return err
	}
	c.Shape.Width, c.Shape.Height = width, height
	return nil
}

// fits compares the size of a grey image with the common size.
func (c *converter) fits(width, height int) error {
	if c.Shape.Channels != 1 {
		return fmt.Errorf("the images are grey; expected --channels 1, not %d", c.Shape.Channels)
	}
	if c.Shape.Width == 0 {
		return c.setShape(width, height)
	}
	if width != c.Shape.Width || height != c.Shape.Height {
		return fmt.Errorf("the image has %d x %d pixels; expected %d x %d", width, height, c.Shape.Width, c.Shape.Height)
	}
	return nil
}

// greyOf converts values from 0 to 1 into pixels from 0 to 255, rounded to the nearest.
func greyOf[T float32 | float64](values []T) ([]byte, error) {
	pixels := make([]byte, len(values))
	for i, v := range values {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("pixel %d is %g; expected 0 to 1", i, v)
		}
		pixels[i] = byte(math.Round(float64(v) * math.MaxUint8))
	}
	return pixels, nil
}
