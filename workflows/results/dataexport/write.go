package dataexport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Format is the format of a table.
type Format string

// The formats.
const (
	// JSONLines has one JSON object per line.
	JSONLines Format = "jsonl"
	// Parquet writes row groups of about rowGroup rows, compressed by Zstandard.
	Parquet Format = "parquet"
)

// Formats lists the formats.
func Formats() []Format { return []Format{JSONLines, Parquet} }

// rowGroup is the number of rows of a Parquet file held in memory. A row with a list counts as one more for
// every valuesOfRow elements.
const (
	rowGroup    = 1 << 15
	valuesOfRow = 32
)

// Write writes a table of Tables in a format of Formats. After an error the table is incomplete.
func (c *Cell) Write(ctx context.Context, table Table, format Format, w io.Writer) error {
	if !slices.Contains(Tables(c.Experiment), table) {
		return fmt.Errorf("cell %s has no table %s", c.Cell.Name, table)
	}
	switch table {
	case Vocabulary:
		return write(ctx, c.eachWord, format, w)
	case Parts:
		return write(ctx, c.eachExample, format, w)
	case Population:
		return write(ctx, c.eachTrained, format, w)
	case Canaries:
		return write(ctx, c.eachCanary, format, w)
	case References:
		return write(ctx, c.eachReference, format, w)
	case Cohorts:
		return write(ctx, c.eachCohort, format, w)
	case Devices:
		return write(ctx, c.eachDevice, format, w)
	case Updates:
		return write(ctx, c.eachUpdate, format, w)
	case Memberships:
		return write(ctx, c.eachMembership, format, w)
	}
	return fmt.Errorf("table %q is unknown", table)
}

// write writes a table row by row.
func write[Row any](ctx context.Context, each func(context.Context, func(Row) error) error, format Format, w io.Writer) error {
	switch format {
	case JSONLines:
		buffered := bufio.NewWriter(w)
		encoder := json.NewEncoder(buffered)
		encoder.SetEscapeHTML(false)
		if err := each(ctx, func(row Row) error { return encoder.Encode(row) }); err != nil {
			return err
		}
		return buffered.Flush()
	case Parquet:
		return writeParquet(ctx, each, w)
	}
	return fmt.Errorf("format %q is unknown; expected one of %q", format, Formats())
}

func writeParquet[Row any](ctx context.Context, each func(context.Context, func(Row) error) error, w io.Writer) error {
	file := parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd))
	held := 0
	err := each(ctx, func(row Row) error {
		if _, err := file.Write([]Row{row}); err != nil {
			return err
		}
		if held += rowsOf(row); held < rowGroup {
			return nil
		}
		held = 0
		return file.Flush()
	})
	if err != nil {
		return err
	}
	return file.Close()
}

// rowsOf returns the number of rows as which a row counts.
func rowsOf(row any) int {
	switch r := row.(type) {
	case Update:
		return 1 + len(r.Values)/valuesOfRow
	case Membership:
		return 1 + len(r.References)/valuesOfRow
	}
	return 1
}
