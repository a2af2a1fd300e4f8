package conversion

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/parquetfile"
	"coalmine/tasks/datasets/source"
)

// Parquet yields the images of Parquet files, in their order. The column of images holds the bytes of PNG
// or JPEG files, or a group with a field bytes, as written by Hugging Face's datasets. Users are texts or
// whole numbers; labels are whole numbers.
func Parquet(paths []string, c Columns) Examples {
	return inFiles(paths, func(path string, yield func(Example, error) bool) (more bool, err error) {
		return parquetFile(path, c, yield)
	})
}

func parquetFile(path string, columns Columns, yield func(Example, error) bool) (more bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	size, err := file.Stat()
	if err != nil {
		return false, err
	}
	name := filepath.Base(path)
	table, err := parquetfile.Open(file, size.Size(), source.DefaultRatio)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	p := parquetTable{name: name, table: table}
	if err := p.find(columns); err != nil {
		return false, err
	}
	for group := range table.Groups() {
		if more, err := p.rows(group, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// parquetTable reads one file.
type parquetTable struct {
	name               string
	table              *parquetfile.File
	image, user, label int // indexes of leaves
	row                int // number of rows read
}

// find sets the indexes of the columns.
func (p *parquetTable) find(c Columns) error {
	whole := []parquetfile.Kind{parquetfile.Int32, parquetfile.Int64}
	for _, wanted := range []struct {
		column string
		at     *int
		kinds  []parquetfile.Kind
		paths  [][]string
	}{
		{c.Image, &p.image, []parquetfile.Kind{parquetfile.Bytes}, [][]string{{c.Image, "bytes"}, {c.Image}}},
		{c.User, &p.user, append([]parquetfile.Kind{parquetfile.Bytes}, whole...), [][]string{{c.User}}},
		{c.Label, &p.label, whole, [][]string{{c.Label}}},
	} {
		at, err := p.lookUp(wanted.column, wanted.paths)
		if err != nil {
			return err
		}
		leaf := &p.table.Leaves()[at]
		if leaf.List || !slices.Contains(wanted.kinds, leaf.Kind) {
			return fmt.Errorf("%s: column %q is of type %s; expected one %v per row", p.name, wanted.column, leaf.Kind, wanted.kinds)
		}
		if err := leaf.Readable(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		*wanted.at = at
	}
	return nil
}

// lookUp returns the leaf of the first existing path. No other leaf may have that path.
func (p *parquetTable) lookUp(column string, paths [][]string) (int, error) {
	for _, path := range paths {
		named := func(leaf parquetfile.Leaf) bool { return slices.Equal(leaf.Path, path) }
		at := slices.IndexFunc(p.table.Leaves(), named)
		if at >= 0 && slices.ContainsFunc(p.table.Leaves()[at+1:], named) {
			return 0, fmt.Errorf("%s has several columns %q; expected one", p.name, column)
		}
		if at >= 0 {
			return at, nil
		}
	}
	names := lists.Map(p.table.Leaves(), func(leaf parquetfile.Leaf) string { return strconv.Quote(leaf.Name()) })
	return 0, fmt.Errorf("%s has no column %q; it has %s", p.name, column, strings.Join(names, ", "))
}

// rows yields the images of a group of rows.
func (p *parquetTable) rows(group int, yield func(Example, error) bool) (more bool, err error) {
	columns := [3]*parquetfile.Column{p.table.Read(group, p.image), p.table.Read(group, p.user), p.table.Read(group, p.label)}
	for range p.table.Rows(group) {
		p.row++
		x := Example{Where: fmt.Sprintf("%s, row %d", p.name, p.row)}
		fault, err := p.example(&x, columns)
		if err != nil {
			return false, fmt.Errorf("%s: %w; the file is damaged: get it again", x.Where, noEnd(err))
		}
		if _, ok := errors.AsType[*CorruptError](fault); fault != nil && !ok {
			return false, fault
		}
		if !yield(x, fault) {
			return false, nil
		}
	}
	return true, nil
}

// noEnd replaces io.EOF, which means that a column ends before other columns.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// example reads the example of the next row from the columns of images, users and labels. A fault concerns
// that row alone.
func (p *parquetTable) example(x *Example, columns [3]*parquetfile.Column) (fault, err error) {
	var values [3]parquetfile.Value
	for i, c := range columns {
		if values[i], err = c.Next(); err != nil {
			return nil, err
		}
	}
	image, user, label := values[0], values[1], values[2]
	if !user.Null {
		if x.User, fault = p.table.Leaves()[p.user].Text(user); fault != nil {
			return fmt.Errorf("%s: %w", x.Where, fault), nil
		}
	}
	if label.Null {
		return fmt.Errorf("%s: the label is missing", x.Where), nil
	}
	x.Label = int(int64(label.Bits))
	if x.File = image.Bytes; len(x.File) == 0 {
		return &CorruptError{x.Where, errors.New("the image is missing")}, nil
	}
	return nil, nil
}
