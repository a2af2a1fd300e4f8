package forms

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/dataformats"
)

// csv yields the rows of a table in text. The header decides its separator if comma is 0.
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
				continue // an empty cell is missing
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
	last  int // line of the last row
}

// ErrCarriageReturns is the fault of a file with line ends of classic Mac OS.
var ErrCarriageReturns = errors.New(`lines end in carriage returns alone; replace each by a line feed: tr '\r' '\n' < FILE`)

func (r *reader) openCSV(comma rune) (*csvTable, error) {
	content := bufio.NewReader(r.content)
	dataformats.SkipMark(content)
	header := unquotedHeader(content)
	if strings.Contains(strings.TrimSuffix(header, "\r"), "\r") {
		return nil, mistaken("%w", ErrCarriageReturns)
	}
	marked := comma == 0 && separatorLine.MatchString(header)
	switch {
	case marked:
		comma = rune(header[len("sep=")])
	case comma == 0:
		comma = separator(header)
	}
	guard := &rowGuard{Reader: content, most: r.MaxRow}
	table := &csvTable{Reader: csv.NewReader(guard), guard: guard}
	table.Comma, table.ReuseRecord = comma, true
	names, err := table.Read()
	if marked {
		table.FieldsPerRecord = 0 // decided by the row of names
		names, err = table.Read()
	}
	if errors.Is(err, io.EOF) {
		return nil, mistaken("the file is empty; expected names of columns in its first row")
	}
	if err != nil {
		return nil, table.fault(names, err)
	}
	table.names = append(table.names, names...)
	return table, nil
}

// separatorLine matches the first line that tells Excel the separator.
var separatorLine = regexp.MustCompile(`(?i)^sep=[,;|\t]\r?$`)

// unquotedHeader returns the first line of a table without its quoted parts, from the buffered first bytes.
func unquotedHeader(content *bufio.Reader) string {
	head, _ := content.Peek(content.Size()) // the table reports an error of its content
	var header strings.Builder
	quoted := false
	for _, c := range string(head) {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\n':
			return header.String()
		default:
			header.WriteRune(c)
		}
	}
	return header.String()
}

// separator returns the separator of a table: a comma if its header has one outside of quotes, or else
// the first semicolon, tab or bar, as spreadsheets write where the comma is the decimal mark.
func separator(header string) rune {
	i := strings.IndexAny(header, ";\t|")
	if i < 0 || strings.Contains(header, ",") {
		return ','
	}
	return rune(header[i])
}

func (r *reader) csvNames(comma rune) ([]string, error) {
	table, err := r.openCSV(comma)
	if err != nil {
		return nil, err
	}
	return table.names, nil
}

// each calls do with each row, and skip with the fault of a bad one.
func (t *csvTable) each(do func(line int, values []string) error, skip func(unit string, number int, err error) error) error {
	for {
		t.guard.since = 0
		values, err := t.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok && !t.swallows(wrong, values) {
			err = skip("line", wrong.StartLine, explainCSV(wrong, len(t.names), len(values)))
		} else if err != nil {
			err = t.fault(values, err)
		} else if err = t.checkLines(values); err == nil {
			line := t.begins(values)
			t.last = line + lines(values)
			err = do(line, values)
		}
		if err != nil {
			return err
		}
	}
}

func explainCSV(wrong *csv.ParseError, want, got int) error {
	if errors.Is(wrong, csv.ErrFieldCount) {
		remedy := ""
		if got > want {
			remedy = "; quote values that contain the separator"
		}
		return fmt.Errorf("%d values; expected %d, one for each name in the first row%s", got, want, remedy)
	}
	if errors.Is(wrong, csv.ErrQuote) {
		return errOpenQuote
	}
	return errors.New("a quote stands in a value that does not begin with one; begin and end the value with a quote, and double those in it")
}

// swallows reports whether a faulty row spans lines that may be rows: the number of lost rows is then
// unknown.
func (t *csvTable) swallows(wrong *csv.ParseError, values []string) bool {
	return errors.Is(wrong, errLongRow) || wrong.Line > wrong.StartLine || lines(values) > 0
}

// lines counts the line ends in the values of a row.
func lines(values []string) int {
	n := 0
	for _, value := range values {
		n += strings.Count(value, "\n")
	}
	return n
}

// fault makes a fault that ends the file, unless the content could not be read. values are the
// values of the row so far.
func (t *csvTable) fault(values []string, err error) error {
	wrong, ok := errors.AsType[*csv.ParseError](err)
	if ok && errors.Is(wrong, csv.ErrQuote) && wrong.Line > wrong.StartLine {
		return mistakenAt(wrong.StartLine+lines(values), errOpenQuote)
	}
	if ok {
		return mistakenAt(wrong.StartLine, explainCSV(wrong, len(t.names), len(values)))
	}
	if errors.Is(err, errLongRow) {
		return mistakenAt(t.begins(values), fmt.Errorf("%w than %d bytes, which is the limit: a quote may lack its end; double it or remove it, or raise data.limits.line", err, t.guard.most))
	}
	return err
}

// begins returns the line in which the row with these values begins; without values, the line after
// the last row.
func (t *csvTable) begins(values []string) int {
	if len(values) == 0 {
		return t.last + 1
	}
	line, _ := t.FieldPos(0)
	return line
}

// mistakenAt returns the fault of a line after which rows cannot be separated, so that no row can
// be skipped.
func mistakenAt(line int, err error) error {
	return &Fault{Unit: "line", Number: line, Err: err, Mistaken: true}
}

var (
	errOpenQuote = errors.New("the quote that opens in this line is not closed before a separator or the end of a line; close it, double it or remove it")
	errLongRow   = errors.New("the row that begins in this line is longer")
)

// checkLines returns an error for a text with lines that are themselves rows: its opening quote is
// probably part of the text, and would swallow these rows.
func (t *csvTable) checkLines(values []string) error {
	const fewest = 2
	for i, value := range values {
		n := strings.Count(value, "\n")
		if n > fewest && t.areRows(value) {
			line, _ := t.FieldPos(i)
			return mistakenAt(line, fmt.Errorf("the quote that opens in this line takes %d lines into %q that look like rows; double it or remove it if it is a part of the text", n, t.names[i]))
		}
	}
	return nil
}

// areRows reports whether all lines of a text except the first and the last have a nonempty value
// for each column of the table. Prose may have a comma on each of a few lines, so a table without tabs needs
// many lines.
func (t *csvTable) areRows(text string) bool {
	inner := strings.Split(text, "\n")
	inner = inner[1 : len(inner)-1]
	if t.Comma != '\t' && len(inner) < 20 || len(t.names) < 2 {
		return false
	}
	for _, line := range inner {
		values := strings.Split(line, string(t.Comma))
		if len(values) != len(t.names) || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			return false
		}
	}
	return true
}

// rowGuard stops the reading of a row that is too long.
type rowGuard struct {
	io.Reader
	since, most int
}

// Read returns few bytes at a time, to limit read-ahead.
func (g *rowGuard) Read(p []byte) (int, error) {
	if g.most > 0 && g.since > g.most+readAhead {
		return 0, errLongRow
	}
	n, err := g.Reader.Read(p[:min(len(p), readAhead)])
	g.since += n
	return n, err
}

const readAhead = 1 << 12
