// Package source reads the files of a source: records of a user and a text, a pair, a labelled text
// or an image, from JSON lines or the tables of package forms. A Reading determines the conversion. Records
// yields the records in order, within Limits. An Error names file, line and the expected form.
package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"unicode/utf8"

	"coalmine/internal/dataformats"
	"coalmine/internal/encoding"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
)

// File is one file of a source.
type File struct {
	// Name is used in messages. Its ending may name a compression (.gz, .zst, .xz, .lzma), which the content
	// must then have, and helps to recognise the form of content.
	Name string
	// Split is the split of all records if the file name determines it; empty if the records do or
	// if it is unknown.
	Split string
	Open  func() (io.ReadCloser, error)
}

// Limits protect against input that is not a data set.
type Limits struct {
	// LineBytes is the longest line, in bytes; 0 means 1 MiB.
	LineBytes int `json:"line_bytes,omitempty"`
	// TotalBytes is the largest total size of the decompressed files; 0 means 256 GiB.
	TotalBytes int64 `json:"total_bytes,omitempty"`
	// Ratio is the largest ratio of decompressed to compressed size; 0 means 200. Text grows less
	// than 20 times; a larger ratio is likely a decompression bomb. The first 16 MiB of a file are
	// free.
	Ratio int `json:"ratio,omitempty"`
}

// Defaults of Limits.
const (
	DefaultLineBytes  = 1 << 20
	DefaultTotalBytes = 256 << 30
	DefaultRatio      = 200
)

func (l Limits) withDefaults() Limits {
	return Limits{
		LineBytes:  cmp.Or(l.LineBytes, DefaultLineBytes),
		TotalBytes: cmp.Or(l.TotalBytes, DefaultTotalBytes),
		Ratio:      cmp.Or(l.Ratio, DefaultRatio),
	}
}

// Shortest returns the limits with default values left empty, as in an experiment that does not
// set them.
func (l Limits) Shortest() Limits {
	if l.LineBytes == DefaultLineBytes {
		l.LineBytes = 0
	}
	if l.TotalBytes == DefaultTotalBytes {
		l.TotalBytes = 0
	}
	if l.Ratio == DefaultRatio {
		l.Ratio = 0
	}
	return l
}

// Record is one line of a source. User and Text are not empty and are valid UTF-8. Some Texts are not UTF-8:
// the Text of an image, at the image level, is a byte for its label and a byte for each pixel; the Text of a
// pair is the text, the byte 0xFF and the target; the Text of a text with labels is a byte for each label, the
// byte 0xFF and the text.
type Record struct {
	User, Text string
	// Time orders a user's records, if the reading is Timed; dates are seconds since 1970.
	Time float64
	// Group is the group within the user's records, if the reading is Grouped.
	Group string
	// File and Line are the position of the record; lines or rows count from 1.
	File string
	Line int
	// Unlabelled reports whether an image has no label; Text is then only its pixels.
	Unlabelled bool
	// Part is the part of the record's split; records of a source without splits train.
	Part population.Part
}

// Error is a fault of a source file. A retry does not help.
type Error struct {
	File string
	Line int    // from 1; 0 if the fault is not in a line
	Unit string // the unit counted, for a file without lines: "row"
	Err  error
	// mistaken is set if the file does not have the form in the options: nothing can be skipped.
	mistaken bool
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s, %s %d: %v", e.File, e.unit(), e.Line, e.Err)
}

func (e *Error) unit() string { return cmp.Or(e.Unit, "line") }

func (e *Error) Unwrap() error { return e.Err }

// lineForm describes the lines of a source.
type lineForm struct {
	// wanted describes a valid line in messages; convert explains how to convert other data to such
	// lines.
	wanted, convert string
	// parse reads a nonempty line of valid UTF-8.
	parse func(line []byte) (Record, error)
}

// textLines returns the lineForm of a source of texts.
func textLines(rules recordRules) lineForm {
	return lineForm{
		wanted:  `expected {"user": "…", "text": "…"} on every line`,
		convert: "export its users and texts as such lines",
		parse:   rules.parseText,
	}
}

// Records reads the files of a source of texts in order, one record a line, in memory that
// does not depend on their size. It ends at the first error: a *Error for bad input (which
// includes a source without any record), or the error of Open, of a read or of ctx.
func Records(ctx context.Context, files []File, limits Limits) iter.Seq2[Record, error] {
	return Reading{}.Records(ctx, files, limits)
}

// Records reads the files of a source as the function Records does: texts or, at the image
// level, images.
func (r Reading) Records(ctx context.Context, files []File, limits Limits) iter.Seq2[Record, error] {
	return r.Read(ctx, files, limits, new(Skipped))
}

// Read is Records, and counts skipped records in skipped.
func (r Reading) Read(ctx context.Context, files []File, limits Limits, skipped *Skipped) iter.Seq2[Record, error] {
	return recordReader{ctx: ctx, reading: r, tables: !r.Level.Scheme().Images, limits: limits, skipped: skipped}.all(files)
}

// records reads the files of a source of JSON lines.
func records(ctx context.Context, files []File, limits Limits, lines lineForm) iter.Seq2[Record, error] {
	return recordReader{ctx: ctx, limits: limits, lines: lines, skipped: new(Skipped)}.all(files)
}

// all yields the records of files. It reads them again each time.
func (r recordReader) all(files []File) iter.Seq2[Record, error] {
	r.limits = r.limits.withDefaults()
	return func(yield func(Record, error) bool) {
		r := r // state of this pass
		r.yield, *r.skipped = yield, Skipped{}
		r.splits = &splitReader{Origin: r.reading.Origin, seen: map[string]bool{}}
		if r.lines.parse == nil {
			r.lines = r.reading.lines(r.splits)
		}
		splits, err := r.reading.FileSplits(len(files))
		if err != nil {
			yield(Record{}, &Error{File: "the source", Err: err, mistaken: true})
			return
		}
		for i, f := range files {
			r.files++
			f.Split = cmp.Or(f.Split, splits[i])
			if more, err := r.file(f); err != nil {
				yield(Record{}, err)
				return
			} else if !more {
				return
			}
		}
		if err := r.splits.absent(); err != nil && len(r.splits.seen) > 0 {
			yield(Record{}, &Error{File: files[0].Name, Err: err, mistaken: true})
		} else if r.records == 0 {
			yield(Record{}, r.empty(files))
		}
	}
}

// empty returns the error of files without a readable record.
func (r *recordReader) empty(files []File) error {
	name := "the source"
	if len(files) > 0 {
		name = files[0].Name
	}
	if n := r.skipped.Records; n > 0 {
		return &Error{File: name, Err: fmt.Errorf("all records (%d) are faulty, the first in %s", n, r.skipped.First[0])}
	}
	wanted := r.lines.wanted
	if f := r.reading.Form; f == forms.CSV || f == forms.TSV {
		wanted = "expected rows below the names of the columns"
	}
	return &Error{File: name, Err: fmt.Errorf("holds no records; %s", wanted)}
}

// recordReader makes one pass over the files of a source.
type recordReader struct {
	ctx     context.Context
	reading Reading
	tables  bool // also reads forms other than JSON lines
	limits  Limits
	lines   lineForm
	skipped *Skipped
	splits  *splitReader
	yield   func(Record, error) bool
	total   int64 // decompressed bytes so far, over all files
	records int
	files   int // so far, including the current one
}

// file yields the records of one file. It returns false if the caller stops.
func (r *recordReader) file(f File) (more bool, err error) {
	raw, err := f.Open()
	if err != nil {
		return false, err
	}
	defer raw.Close()
	more = true
	if r.splits.begin(f.Split) {
		more, err = r.contents(f, raw)
	}
	if err != nil && r.skip(err) {
		more, err = true, nil
	}
	if more && err == nil {
		_, err = io.Copy(io.Discard, raw) // counts all bytes
	}
	return more, err
}

// contents yields the records of a file with a split to read. It may end before the file does.
func (r *recordReader) contents(f File, raw io.Reader) (more bool, err error) {
	plain, err := openPlain(f.Name, raw, r.limits.Ratio)
	if err != nil {
		return false, err
	}
	defer plain.Close()

	content := bufio.NewReaderSize(plain, r.limits.LineBytes+1)
	form, err := tell(f.Name, content, r.reading.Form)
	switch {
	case err != nil:
		return false, err
	case r.reading.Unit != "" && form.form != forms.Texts:
		return false, &Error{File: f.Name, Err: fmt.Errorf("the content is %s, and data.unit is of text files; expected none (--unit)", form.name), mistaken: true}
	case form.form == forms.JSONLines && r.splits.lacking(false):
		return false, withoutSplits(f.Name, "JSON lines")
	case form.form == forms.JSONLines:
		return r.jsonLines(f.Name, content, plain)
	case form.form != "" && r.tables:
		return r.table(mustForm(form.form), f.Name, content, plain)
	}
	return false, form.refusal(f.Name, r.lines)
}

// tell returns the form of a file: the named form, or else the form of its content.
func tell(name string, content *bufio.Reader, named forms.Form) (form, error) {
	head, _ := content.Peek(headBytes) // a later read returns the error again
	found := recognise(name, head)
	if named != "" {
		found = form{name: string(named), form: named}
	}
	if wide := wideText(head); wide != "" && found.isText() {
		return found, &Error{File: name, Err: fmt.Errorf("the content is text in %[1]s; convert it to UTF-8: iconv -f %[1]s -t UTF-8", wide), mistaken: true}
	}
	return found, nil
}

// Columns returns the form of a file of texts, empty if detected from its content, and the names of
// its columns: see forms.Scheme.Names. named is the form named by the user, if any.
func Columns(ctx context.Context, f File, named forms.Form) (forms.Form, []string, error) {
	raw, err := f.Open()
	if err != nil {
		return "", nil, err
	}
	defer raw.Close()
	limits := Limits{}.withDefaults()
	plain, err := openPlain(f.Name, raw, limits.Ratio)
	if err != nil {
		return "", nil, err
	}
	defer plain.Close()
	content := bufio.NewReader(plain)
	form, err := tell(f.Name, content, named)
	if err == nil && form.named != "" {
		named = form.named
		form, err = tell(f.Name, content, named)
	}
	if err != nil {
		return "", nil, err
	}
	if form.form == "" {
		return "", nil, form.refusal(f.Name, textLines(recordRules{}))
	}
	names, err := mustForm(form.form).Names(ctx, content, forms.Options{MaxRow: limits.LineBytes, Ratio: limits.Ratio})
	return named, names, inTable(f.Name, err)
}

// jsonLines yields the records of a file with one per line.
func (r *recordReader) jsonLines(name string, lines *bufio.Reader, file *plainReader) (more bool, err error) {
	dataformats.SkipMark(lines)
	if endsInCarriageReturn(lines) {
		return false, &Error{File: name, Err: forms.ErrCarriageReturns, mistaken: true}
	}
	for n := 1; ; n++ {
		if n%1024 == 0 && r.ctx.Err() != nil {
			return false, context.Cause(r.ctx)
		}
		line, end, err := r.line(lines, file)
		if errors.Is(err, errLongLine) && r.skip(inLine(name, n, err)) {
			if err = r.passLine(lines, file); err == nil {
				continue
			}
		}
		if err != nil || end {
			return end, inLine(name, n, err)
		}
		rec, err := r.lines.record(line)
		if errors.Is(err, errUnread) {
			continue
		}
		if err = inLine(name, n, err); err != nil {
			if r.skip(err) {
				continue
			}
			return false, err
		}
		r.splits.ofFile(&rec)
		rec.File, rec.Line = name, n
		r.records++
		if !r.yield(rec, nil) {
			return false, nil
		}
	}
}

// endsInCarriageReturn reports whether the first object of JSON lines ends in a carriage return alone. JSON has
// none in a string, and a comma between objects.
func endsInCarriageReturn(lines *bufio.Reader) bool {
	head, _ := lines.Peek(lines.Size()) // a later read returns the error again
	first, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.Contains(first, []byte("}\r{"))
}

// line returns the next line without its end. The last one may lack a newline.
func (r *recordReader) line(lines *bufio.Reader, file *plainReader) (line []byte, end bool, err error) {
	line, err = r.piece(lines, file)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, false, badLine("%w than %d bytes, which is the limit; %s; or raise data.limits.line", errLongLine, r.limits.LineBytes, r.lines.wanted)
	case errors.Is(err, io.EOF):
		return line, len(line) == 0, nil
	case err != nil:
		return nil, false, err
	}
	return line[:len(line)-1], false, nil
}

// errLongLine begins the fault of a line that is too long to read.
var errLongLine = errors.New("the line is longer")

// passLine skips the rest of a line.
func (r *recordReader) passLine(lines *bufio.Reader, file *plainReader) error {
	err := bufio.ErrBufferFull
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.piece(lines, file)
	}
	if errors.Is(err, io.EOF) {
		return nil // reading the next line returns it
	}
	return err
}

// piece reads to the end of a line, or until the buffer is full, within the limits of the source
// and of the file.
func (r *recordReader) piece(lines *bufio.Reader, file *plainReader) (piece []byte, err error) {
	piece, err = lines.ReadSlice('\n')
	if r.total += int64(len(piece)); r.total > r.limits.TotalBytes {
		return nil, badLine("the source holds more than %d bytes of text, which is the limit; split it, or raise data.limits.text", r.limits.TotalBytes)
	}
	if bomb := r.checkRatio(file, int64(len(piece))); bomb != nil {
		return nil, bomb
	}
	return piece, err
}

// checkRatio returns an error for a file that decompression expands too much.
func (r *recordReader) checkRatio(file *plainReader, line int64) error {
	file.out += line
	if file.Compressed && file.out > dataformats.FreeBytes && file.out/int64(r.limits.Ratio) > file.raw.read {
		return badLine("the file has grown to more than %d times its compressed size, which is the limit: it may be a decompression bomb; if it is data, raise data.limits.ratio", r.limits.Ratio)
	}
	return nil
}

// badLine returns a fault of a line; inLine adds the position.
func badLine(format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...)}
}

// inLine adds the position to a *Error, and returns other errors unchanged.
func inLine(file string, line int, err error) error {
	if fault, ok := errors.AsType[*Error](err); ok {
		return &Error{File: file, Line: line, Err: fault.Err, mistaken: fault.mistaken}
	}
	return err
}

// record reads one line. Unknown fields are allowed.
func (f *lineForm) record(line []byte) (Record, error) {
	if !utf8.Valid(line) {
		return Record{}, badLine("byte %d is not valid UTF-8; %s", forms.InvalidAt(string(line))+1, forms.ToUTF8)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return Record{}, badLine("the line is empty; %s", f.wanted)
	}
	rec, err := f.parse(line)
	if _, ok := errors.AsType[*Error](err); err == nil || ok || errors.Is(err, errUnread) {
		return rec, err
	}
	if fault, ok := errors.AsType[*unexpectedError](err); ok {
		return Record{}, badLine("%w; %s", fault.error, f.wanted)
	}
	return Record{}, f.explainJSON(err)
}

// errUnread reports a line of a split that is not read.
var errUnread = errors.New("a split that is not read")

// unexpectedError is the fault of a line; its message ends with the expected form.
type unexpectedError struct{ error }

func unexpected(format string, args ...any) error {
	return &unexpectedError{fmt.Errorf(format, args...)}
}

// parseText reads the fields of a line with a text.
func (u recordRules) parseText(line []byte) (Record, error) {
	var fields struct {
		User   *string         `json:"user"`
		Text   *string         `json:"text"`
		Pixels json.RawMessage `json:"pixels"`
		Image  json.RawMessage `json:"image"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	if err := checkUser(fields.User); err != nil {
		return Record{}, err
	}
	switch {
	case fields.Text == nil && (fields.Pixels != nil || fields.Image != nil):
		return Record{}, unexpected(`"text" is missing: the line is an image, which data.level: image reads`)
	case fields.Text == nil:
		return Record{}, unexpected(`"text" is missing`)
	case *fields.Text == "":
		return Record{}, badLine(`"text" is empty; leave the line out or give it a text`)
	case !u.hasWord(*fields.Text):
		return Record{}, badLine(`"text" %.40q holds no words; leave the line out or give it a text`, *fields.Text)
	}
	return Record{User: *fields.User, Text: *fields.Text}, nil
}

func checkUser(user *string) error {
	switch {
	case user == nil:
		return unexpected(`"user" is missing`)
	case *user == "":
		return unexpected(`"user" is empty`)
	}
	return nil
}

func (f *lineForm) explainJSON(err error) error {
	if wrong, ok := errors.AsType[*encoding.ValueError](err); ok {
		return badLine("%w; %s", wrong, f.wanted)
	}
	wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return badLine("not JSON (%w); %s", err, f.wanted)
	}
	if wrongType.Field == "" {
		return badLine("a JSON %s, not an object; %s", wrongType.Value, f.wanted)
	}
	expected := "a string"
	switch wrongType.Type.Kind() {
	case reflect.Int:
		expected = "a whole number"
	case reflect.Float64:
		expected = "a number"
	case reflect.Slice:
		expected = "a list of strings"
		if wrongType.Type == reflect.TypeFor[[]*float64]() {
			expected = "a list of numbers"
		}
	default:
	}
	if strings.Contains(expected, "number") && strings.HasPrefix(wrongType.Value, "number ") && expected != "a whole number" {
		expected = "one of 64 bits"
	}
	return badLine("%q is a JSON %.60s, not %s; %s", wrongType.Field, wrongType.Value, expected, f.wanted)
}
