package forms

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"coalmine/internal/spool"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquet yields the rows of a Parquet file. Only the columns that are wanted are read.
func (r *reader) parquet() error {
	file, err := spool.Copy(r.content)
	if err != nil {
		return err
	}
	defer file.Close()
	table, err := parquet.OpenFile(file, file.Size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return damaged("%w; get the file again", err)
	}
	columns, err := r.parquetColumns(table.Schema())
	if err != nil {
		return err
	}
	done := 0
	for _, group := range table.RowGroups() {
		if err := r.parquetGroup(group, columns, done); err != nil {
			return err
		}
		done += int(group.NumRows())
	}
	return nil
}

// parquetColumns are those of the wanted fields, by their place in Columns.list; nil without.
func (r *reader) parquetColumns(schema *parquet.Schema) ([]*parquet.LeafColumn, error) {
	names := make([]string, 0, len(schema.Columns()))
	for _, path := range schema.Columns() {
		names = append(names, path[0])
	}
	places, err := r.places(names)
	if err != nil {
		return nil, err
	}
	columns := make([]*parquet.LeafColumn, len(places))
	for field, place := range places {
		if place < 0 {
			continue
		}
		leaf, ok := schema.Lookup(schema.Columns()[place]...)
		list := leaf.MaxRepetitionLevel == 1 && field == tagsField
		if !ok || leaf.MaxRepetitionLevel > 0 && !list {
			return nil, mistaken("the column %q has many values in a row; expected one", strings.Join(leaf.Path, "."))
		}
		columns[field] = &leaf
	}
	return columns, nil
}

// Places of fields in Columns.list.
const (
	tagsField = iota + 5
	groupField
	splitField
)

// parquetGroup yields a group of rows.
func (r *reader) parquetGroup(group parquet.RowGroup, columns []*parquet.LeafColumn, done int) error {
	cursors := make([]*cursor, len(columns))
	for field, leaf := range columns {
		if leaf == nil {
			continue
		}
		cursors[field] = newCursor(group.ColumnChunks()[leaf.ColumnIndex].Pages(), leaf)
		defer cursors[field].close()
	}
	for i := range int(group.NumRows()) {
		row := Row{Unit: "row", Number: done + i + 1}
		fault, err := row.take(cursors)
		if err != nil {
			return &Fault{Unit: "row", Number: row.Number, Err: fmt.Errorf("%w; the file is damaged: get it again", err), Ends: true}
		}
		if fault != nil {
			err = r.skip("row", row.Number, fault)
		} else {
			err = r.row(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take reads the values of the next row of every column. A fault is of the row alone.
func (r *Row) take(cursors []*cursor) (fault, err error) {
	for field, c := range cursors {
		if c == nil {
			continue
		}
		values, err := c.next()
		if err != nil {
			return nil, err
		}
		if field == tagsField && c.list {
			r.Tags = append([]string{}, values...)
			continue
		}
		if len(values) == 0 {
			continue
		}
		if err := r.fill(field, values[0]); err != nil && fault == nil {
			fault = err
		}
	}
	return fault, nil
}

// cursor goes through the rows of a column.
type cursor struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	list   bool
	buffer []parquet.Value
	ahead  []parquet.Value // of the buffer, not taken yet
	texts  []string
	text   func(parquet.Value) string
}

func newCursor(pages parquet.Pages, leaf *parquet.LeafColumn) *cursor {
	return &cursor{pages: pages, list: leaf.MaxRepetitionLevel > 0, buffer: make([]parquet.Value, 256), text: textOf(leaf)}
}

// close lets go of the column, which was only read.
func (c *cursor) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	_ = c.pages.Close()
}

// next are the values of the next row that are not null, valid until the one after. There
// must be one.
func (c *cursor) next() ([]string, error) {
	c.texts = c.texts[:0]
	for first := true; ; first = false {
		if err := c.fill(); err != nil {
			if errors.Is(err, io.EOF) && !first {
				return c.texts, nil
			}
			return nil, err
		}
		value := c.ahead[0]
		if !first && value.RepetitionLevel() == 0 {
			return c.texts, nil
		}
		c.ahead = c.ahead[1:]
		if !value.IsNull() {
			c.texts = append(c.texts, c.text(value))
		}
		if !c.list {
			return c.texts, nil
		}
	}
}

// fill makes sure that a value is ahead.
func (c *cursor) fill() error {
	for len(c.ahead) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer)
		c.ahead = c.buffer[:n]
		if errors.Is(err, io.EOF) {
			err = nil
			if n == 0 {
				parquet.Release(c.page)
				c.page, c.values = nil, nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// textOf writes the values of a column as text.
func textOf(leaf *parquet.LeafColumn) func(parquet.Value) string {
	if unit := timestampUnit(leaf); unit > 0 {
		return func(v parquet.Value) string { return strconv.FormatFloat(float64(v.Int64())/unit, 'f', -1, 64) }
	}
	return func(v parquet.Value) string {
		if v.Kind() == parquet.ByteArray {
			return string(v.ByteArray())
		}
		return v.String()
	}
}

// timestampUnit is how many of a timestamp's units are in a second; 0 of other columns.
func timestampUnit(leaf *parquet.LeafColumn) float64 {
	logical := leaf.Node.Type().LogicalType()
	if logical == nil {
		return 0
	}
	timestamp, ok := logical.Value.(*format.TimestampType)
	if !ok {
		return 0
	}
	switch timestamp.Unit.Value.(type) {
	case *format.MilliSeconds:
		return 1e3
	case *format.MicroSeconds:
		return 1e6
	default:
		return 1e9
	}
}
