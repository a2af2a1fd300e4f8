package conversion

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"coalmine/tasks/datasets/images"
)

// IDXFiles names files in the IDX format (LeCun, Cortes and Burges, "The MNIST database"), plain or compressed.
type IDXFiles struct {
	// Images is the file of images: bytes, images x height x width.
	Images string
	// Labels is the file of labels: bytes, one per image. If it is empty, the labels are column 0 of Writers.
	Labels string
	// Writers is the file of writers: 32-bit integers, rows x columns, as in QMNIST. It has a row per
	// image, with the label in column 0, and may have more rows.
	Writers string
	// WriterColumn is the column of the writer, such as QMNISTWriter.
	WriterColumn int
}

// QMNISTWriter is the column of the writer in QMNIST's table.
const QMNISTWriter = 2

// FindIDX finds the missing files in a directory by their names: one with images and idx3, one with labels
// and idx1, and one with idx2.
func FindIDX(directory string, f IDXFiles) (IDXFiles, error) {
	for _, wanted := range []struct {
		pattern, flag string
		path          *string
		optional      bool
	}{
		{"*images*idx3*", "--images", &f.Images, false}, {"*labels*idx1*", "--labels", &f.Labels, true}, {"*idx2*", "--writers", &f.Writers, false},
	} {
		if *wanted.path != "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(escapeGlob(directory), wanted.pattern))
		if err != nil {
			return IDXFiles{}, err
		}
		switch {
		case len(paths) == 1:
			*wanted.path = paths[0]
		case len(paths) > 1:
			return IDXFiles{}, fmt.Errorf("%s: %d files match %s; expected one: name it with %s", directory, len(paths), wanted.pattern, wanted.flag)
		case !wanted.optional:
			return IDXFiles{}, fmt.Errorf("%s: no file matches %s; name it with %s", directory, wanted.pattern, wanted.flag)
		}
	}
	return f, nil
}

// escapeGlob escapes a directory for use in a pattern.
func escapeGlob(directory string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(directory)
}

// IDX yields the images of a file, in its order. A user is the writer's number.
func IDX(f IDXFiles) Examples { return examples(f.each) }

// each yields the images in order until yield returns false.
func (f IDXFiles) each(yield func(Example, error) bool) error {
	table, err := f.table()
	if err != nil {
		return err
	}
	images, err := open(f.Images)
	if err != nil {
		return err
	}
	defer images.close()
	dims, err := readIDXHeader(images, idxBytes, 3)
	if err != nil {
		return err
	}
	if rows := len(table.labels); rows != dims[0] || len(table.writers) < rows {
		return fmt.Errorf("%s has %d images, but there are %d labels and %d writers; expected a label for each image, and at least as many writers", images.name, dims[0], rows, len(table.writers))
	}
	height, width := dims[1], dims[2]
	pixels := make([]byte, width*height)
	for i, label := range table.labels {
		if _, err := io.ReadFull(images, pixels); err != nil {
			return images.explain(err)
		}
		where := fmt.Sprintf("%s, image %d", images.name, i+1)
		if !yield(Example{User: fmt.Sprint(table.writers[i]), Label: label, Pixels: pixels, Width: width, Height: height, Where: where}, nil) {
			return nil
		}
	}
	return images.end()
}

// end returns an error if bytes follow the last element.
func (c *content) end() error {
	n, err := io.ReadFull(c, make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("%s: unexpected bytes after the last element; the file is damaged", c.name)
	}
	if !errors.Is(err, io.EOF) {
		return c.explain(err)
	}
	return nil
}

// writerTable is the table of labels and writers.
type writerTable struct {
	labels  []int   // of the images
	writers []int32 // at least as many
}

func (f IDXFiles) table() (*writerTable, error) {
	classes, writers, err := readWriters(f.Writers, f.WriterColumn)
	if err != nil {
		return nil, err
	}
	t := &writerTable{writers: writers}
	if f.Labels == "" {
		for _, class := range classes {
			t.labels = append(t.labels, int(class))
		}
		return t, nil
	}
	if t.labels, err = readLabels(f.Labels); err != nil {
		return nil, err
	}
	for i, label := range t.labels[:min(len(t.labels), len(classes))] {
		if label != int(classes[i]) {
			return nil, fmt.Errorf("image %d has the label %d in %s, but %d in %s; the files do not belong together", i+1, label, filepath.Base(f.Labels), classes[i], filepath.Base(f.Writers))
		}
	}
	return t, nil
}

func readLabels(path string) ([]int, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	defer c.close()
	dims, err := readIDXHeader(c, idxBytes, 1)
	if err != nil {
		return nil, err
	}
	labels, one := []int{}, make([]byte, 1)
	for range dims[0] {
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, c.explain(err)
		}
		labels = append(labels, int(one[0]))
	}
	return labels, c.end()
}

func readWriters(path string, column int) (classes, writers []int32, err error) {
	c, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	dims, err := readIDXHeader(c, idxInts, 2)
	if err != nil {
		return nil, nil, err
	}
	if column < 0 || column >= dims[1] {
		return nil, nil, fmt.Errorf("%s has %d columns; the writer cannot be in column %d (the first is 0)", c.name, dims[1], column)
	}
	row := make([]int32, dims[1])
	for range dims[0] {
		if err := binary.Read(c, binary.BigEndian, row); err != nil {
			return nil, nil, c.explain(err)
		}
		classes, writers = append(classes, row[0]), append(writers, row[column])
	}
	return classes, writers, c.end()
}

// Types of elements of IDX files.
const (
	idxBytes = 0x08
	idxInts  = 0x0c
)

// readIDXHeader reads the magic number and the sizes of a file with elements of a type in a number of dimensions. The
// sizes after the first are bounded. The file may have fewer elements than the first size announces.
func readIDXHeader(c *content, elements byte, dimensions int) ([]int, error) {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(c, magic); err != nil {
		return nil, c.explain(err)
	}
	if want := []byte{0, 0, elements, byte(dimensions)}; string(magic) != string(want) {
		return nil, fmt.Errorf("%s begins with % x; expected % x: an IDX file of %d dimensions and elements of type 0x%02x", c.name, magic, want, dimensions, elements)
	}
	sizes := make([]uint32, dimensions)
	if err := binary.Read(c, binary.BigEndian, sizes); err != nil {
		return nil, c.explain(err)
	}
	dims := make([]int, dimensions)
	for i, n := range sizes {
		if dims[i] = int(n); n == 0 || i > 0 && n > images.MaxPixels {
			return nil, fmt.Errorf("%s has size %d in dimension %d; expected 1 to %d", c.name, n, i+1, images.MaxPixels)
		}
	}
	if dimensions == 3 && dims[1]*dims[2] > images.MaxPixels {
		return nil, fmt.Errorf("%s has images of %d x %d pixels; expected at most %d in all", c.name, dims[2], dims[1], images.MaxPixels)
	}
	return dims, nil
}
