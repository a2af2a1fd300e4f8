package control

import (
	"context"
	"fmt"
	"io"
	"slices"

	"coalmine/workflows/results/dataexport"
)

// Data implements API.
func (l *Local) Data(ctx context.Context, name, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return err
	}
	if err := x.run.Readable("the data of a cell"); err != nil {
		return err
	}
	if tables := dataexport.Tables(x.experiment); !slices.Contains(tables, table) {
		return fmt.Errorf("run %s, cell %s: table %.40q %w: it has %q", x.run.ID, x.cell.Name, table, ErrInput, tables)
	}
	if formats := dataexport.Formats(); !slices.Contains(formats, format) {
		return fmt.Errorf("format %.40q %w: expected one of %q", format, ErrInput, formats)
	}
	data := dataexport.Cell{Archive: l.archive, Plan: x.plan, Cell: x.cell, Experiment: x.experiment}
	if err := data.Write(ctx, table, format, w); err != nil {
		return fmt.Errorf("run %s, cell %s, %s: %w", x.run.ID, x.cell.Name, table, err)
	}
	return nil
}
