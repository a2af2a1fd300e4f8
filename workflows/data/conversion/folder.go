package conversion

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"coalmine/internal/dataformats"
	"coalmine/internal/tempfiles"
	"coalmine/tasks/datasets/source"
)

// Columns name the columns of a table of images.
type Columns struct {
	Image, User, Label string
	// Tags replaces Label if images have several labels: it names a column of labels with Separator between
	// them. Only Folder supports it.
	Tags, Separator string
}

// labelColumn returns the column with the label or the tags of an image.
func (c Columns) labelColumn() string { return cmp.Or(c.Tags, c.Label) }

// Folder yields the images that a CSV file lists, in its order. Its header names the columns, including
// those of the path of a PNG or JPEG file, of the user, and of the label (a whole number, or empty) or the
// tags. Paths are relative to the folder of the table.
func Folder(table string, c Columns) Examples {
	return examples(func(yield func(Example, error) bool) error { return eachRow(table, c, yield) })
}

// maxImageFile bounds a file of one image, in bytes.
const maxImageFile = 16 << 20

func eachRow(table string, columns Columns, yield func(Example, error) bool) error {
	c, err := open(table)
	if err != nil {
		return err
	}
	defer c.close()
	rows := csv.NewReader(c)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return c.explain(err)
	}
	at, err := columns.places(c.name, header)
	if err != nil {
		return err
	}
	for n := 2; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return c.explain(err)
		}
		where := fmt.Sprintf("%s, row %d (%q)", c.name, n, row[at[0]])
		example := Example{User: row[at[1]], Where: where}
		if err := columns.setLabel(&example, row[at[2]]); err != nil {
			return err
		}
		example.File, err = imageAt(filepath.Dir(table), row[at[0]], where)
		if _, ok := errors.AsType[*CorruptError](err); err != nil && !ok {
			return err
		}
		if !yield(example, err) {
			return nil
		}
	}
}

// setLabel sets the label or the tags of an image from the table.
func (c Columns) setLabel(x *Example, text string) (err error) {
	text = strings.TrimSpace(text)
	if c.Tags == "" {
		if x.Unlabelled = text == ""; !x.Unlabelled {
			x.Label, err = parseLabel(text, x.Where)
		}
		return err
	}
	x.Tags = []string{}
	for tag := range strings.SplitSeq(text, c.Separator) {
		if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(x.Tags, tag) {
			x.Tags = append(x.Tags, tag)
		}
	}
	return nil
}

// places returns the indexes of the columns of path, user and label in a header.
func (c Columns) places(name string, header []string) ([3]int, error) {
	var at [3]int
	header = slices.Clone(header)
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for i, column := range []string{c.Image, c.User, c.labelColumn()} {
		if at[i] = slices.Index(header, column); at[i] < 0 {
			return at, fmt.Errorf("%s has no column %q; its header has %q", name, column, header)
		}
		if slices.Contains(header[at[i]+1:], column) {
			return at, fmt.Errorf("%s has several columns %q; expected one", name, column)
		}
	}
	return at, nil
}

func parseLabel(text, where string) (int, error) {
	label, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%s: the label is %q; expected a whole number", where, text)
	}
	return label, nil
}

// imageAt reads the file of an image. A missing file is a fault of that image alone.
func imageAt(folder, path, where string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, filepath.FromSlash(path))
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &CorruptError{where, errors.New("the file is missing")}
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxImageFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if len(data) == 0 || len(data) > maxImageFile {
		return nil, &CorruptError{where, fmt.Errorf("the file has %d bytes or more; expected 1 to %d", len(data), maxImageFile)}
	}
	return data, nil
}

// content reads a file, and decompresses it if needed.
type content struct {
	*dataformats.Decompressor
	name string
	file *os.File
}

func open(path string) (*content, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &content{name: filepath.Base(path), file: file}
	if c.Decompressor, err = dataformats.NewDecompressor(file, source.DefaultRatio); err != nil {
		return nil, errors.Join(c.explain(err), file.Close())
	}
	return c, nil
}

// close closes the file, which was only read.
func (c *content) close() {
	c.Close()
	_ = c.file.Close()
}

// explain adds the file to an error, and the remedy if the file is truncated.
func (c *content) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the file is truncated; get it again", c.name)
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// WriteFile writes the file of a conversion, completely or not at all. It compresses with gzip or Zstandard
// if the name ends in .gz or .zst.
func WriteFile(path string, write func(io.Writer) error) error {
	return tempfiles.Replace(path, func(file io.Writer) error {
		var packed io.WriteCloser
		switch {
		case strings.HasSuffix(path, ".gz"):
			z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
			if err != nil {
				return err
			}
			z.ModTime = time.Unix(0, 0) // no time in the header
			packed = z
		case strings.HasSuffix(path, ".zst"):
			z, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
			if err != nil {
				return err
			}
			packed = z
		default:
			return write(file)
		}
		if err := write(packed); err != nil {
			return err
		}
		return packed.Close()
	})
}
