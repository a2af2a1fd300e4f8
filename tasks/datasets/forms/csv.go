package forms

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// csv yields the rows of a table in text.
func (r *reader) csv(comma rune) error {
	table, err := r.openCSV(comma)
	if err != nil {
		return err
	}
	places, err := r.places(table.names)
	if err != nil {
		return err
	}
	return table.each(func(line int, values []string) error {
		row := Row{Unit: "line", Number: line}
		for field, place := range places {
			if place < 0 {
				continue
			}
			if values[place] == "" && field > 1 {
				continue // an empty cell is none
			}
			if err := row.fill(field, values[place]); err != nil {
				return r.skip("line", line, err)
			}
		}
		return r.row(row)
	}, r.skip)
}

// csvTable is a table in text after its first row.
type csvTable struct {
	*csv.Reader
	names []string
	guard *rowGuard
}

func (r *reader) openCSV(comma rune) (*csvTable, error) {
	content := bufio.NewReader(r.content)
	if mark, _ := content.Peek(3); string(mark) == "\ufeff" {
		_, _ = content.Discard(3) // they have just been seen
	}
	guard := &rowGuard{Reader: content, most: r.MaxRow}
	table := &csvTable{Reader: csv.NewReader(guard), guard: guard}
	table.Comma, table.ReuseRecord = comma, true
	names, err := table.Read()
	if errors.Is(err, io.EOF) {
		return nil, mistaken("the file is empty; expected names of columns in its first row")
	}
	if err != nil {
		return nil, table.fault(err, true)
	}
	table.names = append(table.names, names...)
	return table, nil
}

// each calls do with the rows, and skip with what is wrong with one.
func (t *csvTable) each(do func(line int, values []string) error, skip func(unit string, number int, err error) error) error {
	for {
		t.guard.since = 0
		values, err := t.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok && !errors.Is(err, errLongRow) {
			err = skip("line", wrong.StartLine, explainCSV(wrong, len(t.names), len(values)))
		} else if err != nil {
			err = t.fault(err, true)
		} else {
			line, _ := t.FieldPos(0)
			err = do(line, values)
		}
		if err != nil {
			return err
		}
	}
}

func explainCSV(wrong *csv.ParseError, want, got int) error {
	if errors.Is(wrong, csv.ErrFieldCount) {
		return fmt.Errorf("%d values; expected %d, as the first row has names", got, want)
	}
	return wrong.Err
}

// fault is one of the file, unless the content could not be read.
func (t *csvTable) fault(err error, ends bool) error {
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
		return &Fault{Unit: "line", Number: wrong.StartLine, Err: wrong.Err, Ends: ends}
	}
	if errors.Is(err, errLongRow) {
		return damaged("%w after line %d: the longest may have %d bytes (data.limits.line), and a quote may lack its end", err, t.guard.line(t.Reader), t.guard.most)
	}
	return err
}

var errLongRow = errors.New("a row is too long")

// rowGuard ends a row that never ends.
type rowGuard struct {
	io.Reader
	since, most int
}

// Read gives little at a time, so that what is read ahead is little.
func (g *rowGuard) Read(p []byte) (int, error) {
	if g.most > 0 && g.since > g.most+readAhead {
		return 0, errLongRow
	}
	n, err := g.Reader.Read(p[:min(len(p), readAhead)])
	g.since += n
	return n, err
}

const readAhead = 1 << 12

func (g *rowGuard) line(c *csv.Reader) int {
	line, _ := c.FieldPos(0)
	return line
}
