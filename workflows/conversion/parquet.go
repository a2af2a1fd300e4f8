package conversion

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Parquet yields the images of Parquet files, in their order. The column of images holds the
// bytes of PNG or JPEG files, or a group that has them as bytes, as Hugging Face's datasets
// write images. Users are text or whole numbers, labels whole numbers.
func Parquet(paths []string, c Columns) Examples {
	return func(yield func(Example, error) bool) {
		for _, path := range paths {
			if more, err := parquetFile(path, c, yield); err != nil {
				yield(Example{}, err)
				return
			} else if !more {
				return
			}
		}
	}
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
	table, err := parquet.OpenFile(file, size.Size())
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	p := parquetTable{name: name}
	if err := p.find(table.Schema(), columns); err != nil {
		return false, err
	}
	for _, group := range table.RowGroups() {
		if more, err := p.rows(group.Rows(), yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// parquetTable reads one file.
type parquetTable struct {
	name               string
	image, user, label int // leaf columns
	row                int // read so far
}

// find looks the columns up.
func (p *parquetTable) find(schema *parquet.Schema, c Columns) error {
	for _, wanted := range []struct {
		column string
		at     *int
		kinds  []parquet.Kind
		paths  [][]string
	}{
		{c.Image, &p.image, []parquet.Kind{parquet.ByteArray}, [][]string{{c.Image, "bytes"}, {c.Image}}},
		{c.User, &p.user, []parquet.Kind{parquet.ByteArray, parquet.Int32, parquet.Int64}, [][]string{{c.User}}},
		{c.Label, &p.label, []parquet.Kind{parquet.Int32, parquet.Int64}, [][]string{{c.Label}}},
	} {
		leaf, ok := lookUp(schema, wanted.paths)
		if !ok {
			return fmt.Errorf("%s has no column %q; it has %s", p.name, wanted.column, strings.Join(columnNames(schema), ", "))
		}
		kind := leaf.Node.Type().Kind()
		if leaf.MaxRepetitionLevel > 0 || !containsKind(wanted.kinds, kind) {
			return fmt.Errorf("%s: column %q is of type %s; expected one %v in a row", p.name, wanted.column, kind, wanted.kinds)
		}
		*wanted.at = leaf.ColumnIndex
	}
	return nil
}

func containsKind(kinds []parquet.Kind, kind parquet.Kind) bool {
	for _, k := range kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// lookUp finds the first of some paths that is a column of values.
func lookUp(schema *parquet.Schema, paths [][]string) (parquet.LeafColumn, bool) {
	for _, path := range paths {
		if leaf, ok := schema.Lookup(path...); ok {
			return leaf, true
		}
	}
	return parquet.LeafColumn{}, false
}

func columnNames(schema *parquet.Schema) []string {
	var names []string
	for _, path := range schema.Columns() {
		names = append(names, strings.Join(path, "."))
	}
	return names
}

// rows yields the images of a group of rows.
func (p *parquetTable) rows(rows parquet.Rows, yield func(Example, error) bool) (more bool, err error) {
	defer func() { _ = rows.Close() }() // reading is over
	buffer := make([]parquet.Row, 16)
	for {
		n, err := rows.ReadRows(buffer)
		for _, row := range buffer[:n] {
			p.row++
			x, fault := p.example(row)
			if _, ok := errors.AsType[*CorruptError](fault); fault != nil && !ok {
				return false, fault
			}
			if !yield(x, fault) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("%s, after row %d: %w", p.name, p.row, err)
		}
	}
}

// example is that of a row.
func (p *parquetTable) example(row parquet.Row) (Example, error) {
	x := Example{Where: fmt.Sprintf("%s, row %d", p.name, p.row)}
	for _, v := range row {
		switch v.Column() {
		case p.user:
			if !v.IsNull() {
				x.User = v.String()
			}
		case p.label:
			if v.IsNull() {
				return x, fmt.Errorf("%s: the label is missing", x.Where)
			}
			x.Label = int(v.Int64())
			if v.Kind() == parquet.Int32 {
				x.Label = int(v.Int32())
			}
		case p.image:
			x.File = v.ByteArray()
		}
	}
	if len(x.File) == 0 {
		return x, &CorruptError{x.Where, errors.New("the image is missing")}
	}
	return x, nil
}
