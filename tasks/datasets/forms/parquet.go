package forms

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"coalmine/internal/parquetfile"
	"coalmine/internal/tempfiles"
)

// parquet yields the rows of a Parquet file. It reads only the required columns.
func (r *reader) parquet() error {
	file, table, err := r.openParquet()
	if err != nil {
		return err
	}
	defer file.Close()
	leaves, err := r.parquetLeaves(table)
	if err != nil {
		return err
	}
	growth := growth{of: file.Size, most: r.Ratio}
	done := 0
	for group := range table.Groups() {
		if err := r.parquetGroup(table, group, leaves, done, &growth); err != nil {
			return err
		}
		done += int(table.Rows(group))
	}
	return nil
}

// openParquet copies the file, which the caller closes.
func (r *reader) openParquet() (*tempfiles.Spooled, *parquetfile.File, error) {
	file, err := tempfiles.Spool(r.content)
	if err != nil {
		return nil, nil, err
	}
	table, err := parquetfile.Open(file, file.Size, r.Ratio)
	if err != nil {
		file.Close()
		return nil, nil, parquetFault("", 0, err)
	}
	return file, table, nil
}

// parquetNames returns the columns with one value per row.
func (r *reader) parquetNames() ([]string, error) {
	file, table, err := r.openParquet()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return slices.DeleteFunc(slices.Clone(table.Columns()), func(column string) bool {
		_, err := leafOf(table, column, false)
		return err != nil
	}), nil
}

// parquetFault makes the fault that ends a damaged file, or one with an unsupported feature.
func parquetFault(unit string, row int, err error) error {
	if _, ok := errors.AsType[*parquetfile.UnsupportedError](err); ok {
		return &Fault{Unit: unit, Number: row, Err: err, Mistaken: true}
	}
	return &Fault{Unit: unit, Number: row, Err: fmt.Errorf("%w; the file is damaged: get it again", err)}
}

// parquetLeaves returns the indexes of the wanted fields' leaves, in the order of Columns.list; -1
// for a missing one.
func (r *reader) parquetLeaves(table *parquetfile.File) ([]int, error) {
	columns := table.Columns()
	places, err := r.places(columns)
	if err != nil {
		return nil, err
	}
	for field, place := range places {
		if place < 0 {
			continue
		}
		if places[field], err = leafOf(table, columns[place], field == tagsField); err != nil {
			return nil, mistaken("%w", err)
		}
	}
	return places, nil
}

// leafOf returns the index of the only leaf of a column, which may be a list.
func leafOf(table *parquetfile.File, column string, list bool) (int, error) {
	found, fields := -1, []string{}
	for i, leaf := range table.Leaves() {
		if leaf.Path[0] == column {
			found = i
			fields = append(fields, leaf.Name())
		}
	}
	if len(fields) != 1 {
		return 0, fmt.Errorf("the column %q has %d fields, %s; expected one value in a row", column, len(fields), Quoted(fields))
	}
	leaf := &table.Leaves()[found]
	switch {
	case leaf.List && !list:
		return 0, fmt.Errorf("the column %q has many values in a row; expected one", leaf.Name())
	case !leaf.List && len(leaf.Path) > 1, leaf.List && len(leaf.Path) > 3:
		return 0, fmt.Errorf("the column %q has the field %q; expected a value in a row", column, leaf.Name())
	}
	return found, leaf.Readable()
}

// growth bounds the content of the rows by the size of the file: one stored value may stand for
// any number of rows.
type growth struct {
	of, rows int64
	most     int
}

// freeBytes of rows are allowed for a file of any size.
const freeBytes = 16 << 20

func (g *growth) add(texts []string) error {
	g.rows++
	for _, text := range texts {
		g.rows += int64(len(text)) + 1
	}
	if g.rows > freeBytes && g.rows/int64(g.most) > g.of {
		return mistaken("the rows hold more than %d times the bytes of the file, which is the limit: it may be a decompression bomb; if it is data, raise data.limits.ratio", g.most)
	}
	return nil
}

// parquetGroup yields a group of rows.
func (r *reader) parquetGroup(table *parquetfile.File, group int, leaves []int, done int, growth *growth) error {
	columns := make([]*parquetColumn, len(leaves))
	for field, leaf := range leaves {
		if leaf >= 0 {
			columns[field] = &parquetColumn{Column: table.Read(group, leaf), leaf: &table.Leaves()[leaf], growth: growth, longest: r.MaxRow}
		}
	}
	number := done
	for range table.Rows(group) {
		number++
		row := Row{Unit: "row", Number: number}
		fault, err := row.take(columns)
		if _, bomb := errors.AsType[*Fault](err); err != nil && !bomb {
			err = parquetFault("row", number, err)
		}
		if err != nil {
			return err
		}
		if err := r.put(row, fault); err != nil {
			return err
		}
	}
	for _, c := range columns {
		if c == nil {
			continue
		}
		if _, err := c.Next(); !errors.Is(err, io.EOF) {
			return parquetFault("row", number, fmt.Errorf("the column %q has values beyond the last row", c.leaf.Name()))
		}
	}
	return nil
}

// take reads the values of the next row of every column. A fault concerns only the row.
func (r *Row) take(columns []*parquetColumn) (fault, err error) {
	for field, c := range columns {
		if c == nil {
			continue
		}
		values, wrong, err := c.row()
		if err != nil {
			return nil, err
		}
		switch {
		case wrong != nil:
		case c.leaf.List:
			r.Tags = append([]string{}, values...)
		case len(values) > 0:
			wrong = r.fill(field, values[0])
		}
		if fault == nil {
			fault = wrong
		}
	}
	return fault, nil
}

// parquetColumn iterates over the rows of a column.
type parquetColumn struct {
	*parquetfile.Column
	leaf    *parquetfile.Leaf
	growth  *growth
	longest int
	texts   []string
}

// row returns the values of the next row that are not null, valid until the next call. There must be
// a next row. A fault concerns only that row.
func (c *parquetColumn) row() (values []string, fault, err error) {
	c.texts = c.texts[:0]
	bytes := 0
	for more := true; more; {
		value, err := c.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("the column %q ends before the last row", c.leaf.Name())
		}
		if err != nil {
			return nil, nil, err
		}
		if bytes += len(value.Bytes) + 1; c.longest > 0 && bytes > c.longest+1 {
			fault = fmt.Errorf("the column %q is longer than %d bytes, which is the limit; raise data.limits.line", c.leaf.Name(), c.longest)
			c.texts = c.texts[:0]
		} else if !value.Null {
			text, wrong := c.leaf.Text(value)
			if c.texts = append(c.texts, text); wrong != nil {
				fault = wrong
			}
		}
		if more, err = c.Continues(); err != nil {
			return nil, nil, err
		}
	}
	return c.texts, fault, c.growth.add(c.texts)
}
