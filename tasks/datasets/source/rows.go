package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"coalmine/internal/readable"
	"coalmine/tasks/datasets/forms"
)

// Origin names the form of a source and the fields to read. The zero value detects the form from
// the content, and stops at the first fault.
type Origin struct {
	// Form is the form of all files; empty detects it from the content of each.
	Form forms.Form `json:"form,omitempty"`
	// Columns are the columns with other names than the form's defaults.
	Columns forms.Columns `json:"columns,omitzero"`
	// Unit is the part of a text file that is an example; empty means a line.
	Unit forms.Unit `json:"unit,omitempty"`
	// Split is the training split of data with their own splits; empty means "train".
	Split string `json:"split,omitempty"`
	// TestSplit and ValidationSplit are the splits for the test and the validation part; empty
	// draws the part from the training split.
	TestSplit       string `json:"test_split,omitempty"`
	ValidationSplit string `json:"validation_split,omitempty"`
	// Files lists the splits of the source's files in order, one per line, with an empty line for a
	// file without one; empty if no file has a split. A survey takes them from the files.
	Files string `json:"files,omitempty"`
	// SkipFaults skips and counts faulty records. Records before the cut of a truncated file are
	// read.
	SkipFaults bool `json:"skip_faults,omitempty"`
}

// OnError names the treatment of faulty records.
type OnError string

// Treatments of faulty records.
const (
	StopAtFaults OnError = "stop"
	SkipFaults   OnError = "skip"
)

// Choices lists the treatments for an experiment file.
func (OnError) Choices() []string { return []string{string(StopAtFaults), string(SkipFaults)} }

// IsZero reports whether faults stop the reading, so that JSON that omits zero values is the same
// for the explicit default and the empty value.
func (e OnError) IsZero() bool { return e == "" || e == StopAtFaults }

// Check returns an error for an invalid origin of texts or images.
func (o Origin) Check(images bool) error {
	if o.Unit != "" && (o.Form != "" && o.Form != forms.Texts || !o.Unit.Known()) {
		return fmt.Errorf("the unit %q; expected one of %s, of the form %s", o.Unit, strings.Join(o.Unit.Choices(), ", "), forms.Texts)
	}
	if images && (o.Form != "" || o.Unit != "" || o.Columns != (forms.Columns{}) || o.Named()) {
		return fmt.Errorf("a form, a unit, columns or a split of images; expected none: sources of images are JSON lines, which data convert makes")
	}
	if err := o.checkSplits(); err != nil || o.Form == "" {
		return err
	}
	s, err := forms.Find(o.Form)
	switch {
	case err != nil:
		return err
	case s.Fixed && o.Columns != (forms.Columns{}):
		return fmt.Errorf("columns of the form %s; expected none, because the names of its fields are fixed", o.Form)
	}
	return nil
}

// Skipped counts the records skipped because of faults.
type Skipped struct {
	Records int `json:"records"`
	// First lists the faults of the first skipped records, with the number of the file, from 1, and
	// the position in it.
	First []string `json:"first"`
}

// String returns "data.on_error left out 3 faulty records of the source, the first in …".
func (s *Skipped) String() string {
	return fmt.Sprintf("data.on_error left out %s of the source, the first in %s", readable.Count(s.Records, "faulty record"), s.First[0])
}

// firstSkipped is the number of faults in Skipped.First.
const firstSkipped = 5

func (s *Skipped) add(file int, place string, err error) {
	if s.Records++; len(s.First) < firstSkipped {
		s.First = append(s.First, fmt.Sprintf("file %d%s: %v", file, place, err))
	}
}

// Some returns a copy of s, or nil if no record was skipped.
func (s *Skipped) Some() *Skipped {
	if s.Records == 0 {
		return nil
	}
	copied := *s
	return &copied
}

// skip reports whether to skip a fault, and counts it if so.
func (r *recordReader) skip(err error) bool {
	fault, ok := errors.AsType[*Error](err)
	if !ok || !r.reading.SkipFaults || fault.mistaken {
		return false
	}
	place := ""
	if fault.Line > 0 {
		place = fmt.Sprintf(", %s %d", fault.unit(), fault.Line)
	}
	r.skipped.add(r.files, place, fault.Err)
	return true
}

// table yields the records of a file that is not JSON lines.
func (r *recordReader) table(s forms.Scheme, name string, content *bufio.Reader, file *plainReader) (more bool, err error) {
	if r.splits.lacking(s.Splits) {
		return false, withoutSplits(name, s.Summary)
	}
	watched := &watchedReader{content, r, file}
	o := forms.Options{Columns: r.reading.Columns, Needs: r.reading.needs(), Splits: r.splits.wanted(), Unit: r.reading.Unit, MaxRow: r.limits.LineBytes, Ratio: r.limits.Ratio}
	for row, err := range s.Rows(r.ctx, watched, o) {
		if err = inTable(name, err); err == nil {
			if more, err = r.tableRow(s, name, &row); err == nil && !more {
				return false, nil
			}
		}
		if err != nil && !r.skip(err) {
			return false, err
		}
	}
	return true, nil
}

// tableRow yields the record of a row, unless its split is not read.
func (r *recordReader) tableRow(s forms.Scheme, name string, row *forms.Row) (more bool, err error) {
	part, wanted, err := r.splits.part(row.Split)
	if err == nil && !wanted {
		return true, nil
	}
	var rec Record
	if err == nil {
		rec, err = r.reading.recordOf(row, r.reading.Columns.Or(s.Columns), r.limits.LineBytes)
	}
	if err != nil {
		return true, &Error{File: name, Line: row.Number, Unit: row.Unit, Err: bare(err)}
	}
	rec.File, rec.Line, rec.Part = name, row.Number, part
	r.records++
	return r.yield(rec, nil), nil
}

// bare returns the fault of a line without its position.
func bare(err error) error {
	if fault, ok := errors.AsType[*Error](err); ok {
		return fault.Err
	}
	return err
}

// inTable adds the file to a fault of a form; other errors come from the content.
func inTable(name string, err error) error {
	fault, ok := errors.AsType[*forms.Fault](err)
	if !ok {
		return err
	}
	return &Error{File: name, Line: fault.Number, Unit: fault.Unit, Err: fault.Err, mistaken: fault.Mistaken}
}

// watchedReader checks the limits of a file while it is read.
type watchedReader struct {
	io.Reader
	of   *recordReader
	file *plainReader
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.of.total += int64(n)
	if w.of.total > w.of.limits.TotalBytes {
		return n, &Error{File: w.file.name, Err: fmt.Errorf("the source holds more than %d bytes, which is the limit; split it, or raise data.limits.text", w.of.limits.TotalBytes)}
	}
	if bomb := w.of.checkRatio(w.file, int64(n)); bomb != nil {
		return n, inLine(w.file.name, 0, bomb)
	}
	if err == nil && w.of.ctx.Err() != nil {
		err = context.Cause(w.of.ctx)
	}
	return n, err
}

// needs returns the fields of a row that recordOf reads in addition to user and text.
func (r Reading) needs() forms.Needs {
	return forms.Needs{
		Target: r.Pairs, Time: r.Timed, Group: r.Grouped, Split: r.Named(),
		Score: r.Label == ScoreLabel, Tags: r.Label == TagsLabel,
	}
}

// recordOf makes a record from a row, as lineForm.parse does from a line. names holds the names of
// the fields.
func (r Reading) recordOf(row *forms.Row, names forms.Columns, longest int) (Record, error) {
	user, err := field(row.User, names.User)
	if err != nil {
		return Record{}, err
	}
	text, err := textField(row.Text, names.Text, longest, r.recordRules())
	if err != nil {
		return Record{}, err
	}
	rec := Record{User: user, Text: text}
	if r.Pairs {
		target, err := textField(row.Target, names.Target, longest, r.recordRules())
		if err != nil {
			return Record{}, err
		}
		rec.Text += PairMark + target
	}
	if r.Timed {
		if rec.Time, err = timeField(row.Time, names.Time); err != nil {
			return Record{}, err
		}
	}
	if r.Grouped {
		if rec.Group, err = field(row.Group, names.Group); err != nil {
			return Record{}, err
		}
	}
	return r.labelled(rec, row)
}

// labelled puts the labels of a row before its text, if the reading has labels.
func (r Reading) labelled(rec Record, row *forms.Row) (Record, error) {
	scheme, err := labels.Find(r.Label)
	if err != nil {
		return rec, nil
	}
	fields := labelFields{Score: row.Score}
	if row.Tags != nil {
		fields.Tags = &row.Tags
	}
	numbers, err := scheme.of(&fields, r.TagList())
	if err != nil {
		return Record{}, err
	}
	rec.Text = string(numbers) + PairMark + rec.Text
	return rec, nil
}

func field(value *string, name string) (string, error) {
	switch {
	case value == nil:
		return "", fmt.Errorf("%q is missing", name)
	case *value == "":
		return "", fmt.Errorf("%q is empty", name)
	case !utf8.ValidString(*value):
		return "", fmt.Errorf("%q is not valid UTF-8 from its byte %d; %s", name, forms.InvalidAt(*value)+1, forms.ToUTF8)
	}
	return *value, nil
}

func textField(value *string, name string, longest int, rules recordRules) (string, error) {
	text, err := field(value, name)
	switch {
	case err != nil:
		return "", err
	case len(text) > longest:
		return "", fmt.Errorf("%q is longer than %d bytes, which is the limit; raise data.limits.line", name, longest)
	case !rules.hasWord(text):
		return "", fmt.Errorf("%q %.40q holds no words; leave the row out or give it a text", name, text)
	}
	return text, nil
}

func timeField(value any, name string) (float64, error) {
	switch at := value.(type) {
	case nil:
		return 0, fmt.Errorf("%q is missing", name)
	case float64:
		if !math.IsNaN(at) && !math.IsInf(at, 0) {
			return at, nil
		}
	case string:
		if seconds, ok := parseDate(at); ok {
			return seconds, nil
		}
	}
	return 0, fmt.Errorf(`%q is %.40q; expected a date such as "2010-07-19T19:12:12Z" or "2010-07-19", or a number`, name, fmt.Sprint(value))
}

// renamed returns the form of JSON lines with renamed fields.
func (r Reading) renamed(f lineForm, splits *splitReader) lineForm {
	names := r.Columns.Or(mustForm(forms.JSONLines).Columns)
	f.wanted = fmt.Sprintf("expected an object with %q and %q on every line (data.columns)", names.User, names.Text)
	f.parse = func(line []byte) (Record, error) {
		row, err := forms.ParseLine(line, r.Columns, r.needs())
		if err != nil {
			return Record{}, err
		}
		part, wanted, err := splits.part(row.Split)
		if err == nil && !wanted {
			return Record{}, errUnread
		}
		var rec Record
		if err == nil {
			rec, err = r.recordOf(&row, names, math.MaxInt)
		}
		if err != nil {
			return Record{}, &unexpectedError{err}
		}
		rec.Part = part
		return rec, nil
	}
	return f
}

// mustForm returns the scheme of a known form.
func mustForm(f forms.Form) forms.Scheme {
	s, err := forms.Find(f)
	if err != nil {
		panic(strings.TrimSpace(err.Error()))
	}
	return s
}
