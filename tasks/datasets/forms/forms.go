// Package forms reads the file forms of data sets of texts. Each yields rows: a user, a text, and
// the form's other fields of an example. Package datasets decides which fields a row must have and
// how to use them.
package forms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coalmine/internal/registry"
)

// Form is a form of a source. The zero value is detected from the content of each file.
type Form string

// Forms of texts.
const (
	// JSONLines has an object on every line.
	JSONLines Form = "jsonl"
	// CSV and TSV have column names in their first row (RFC 4180). CSV without a comma there is separated by
	// semicolons, tabs or bars.
	CSV Form = "csv"
	TSV Form = "tsv"
	// Parquet has columns of text, as in Hugging Face's datasets.
	Parquet Form = "parquet"
	// TFF is a database of TensorFlow Federated, such as that of Stack Overflow.
	TFF Form = "tff"
	// StackExchange is Posts or Comments of a dump of Stack Exchange, in XML or CSV.
	StackExchange Form = "stackexchange"
	// LEAF is the JSON of LEAF's Shakespeare, Sent140 or Reddit.
	LEAF Form = "leaf"
	// Texts are text files: a folder of them, or a file, for each user. A tar archive holds them in
	// one file.
	Texts Form = "texts"
)

// Scheme describes a form.
type Scheme struct {
	Form Form
	// Summary describes such a file in one line.
	Summary string
	// Columns holds the form's default names of the fields.
	Columns Columns
	// Fixed reports whether fields cannot be renamed.
	Fixed bool
	// Splits reports whether a file has several splits, some of which are read.
	Splits bool

	// read yields rows; nil for JSONLines, which package datasets reads.
	read func(*reader) error
	// names returns the names of the columns; nil for a form without column names.
	names func(*reader) ([]string, error)
}

var schemes = registry.New("form", func(s Scheme) Form { return s.Form },
	Scheme{Form: JSONLines, Summary: "a JSON object on every line", Columns: plainColumns, names: (*reader).memberNames},
	Scheme{Form: CSV, Summary: "a table with commas, semicolons, tabs or bars, the names of columns in its first row", Columns: plainColumns, read: func(r *reader) error { return r.csv(0) }, names: func(r *reader) ([]string, error) { return r.csvNames(0) }},
	Scheme{Form: TSV, Summary: "a table with tabs, the names of columns in its first row", Columns: plainColumns, read: func(r *reader) error { return r.csv('\t') }, names: func(r *reader) ([]string, error) { return r.csvNames('\t') }},
	Scheme{Form: Parquet, Summary: "a Parquet file with columns of text", Columns: plainColumns, read: (*reader).parquet, names: (*reader).parquetNames},
	Scheme{
		Form: TFF, Summary: "an SQLite database of TensorFlow Federated", Splits: true,
		Columns: Columns{User: clientColumn, Text: "tokens", Target: "target", Time: "creation_date", Score: "score", Tags: "tags", Group: "group", Split: splitColumn},
		read:    (*reader).tff,
	},
	Scheme{
		Form: StackExchange, Summary: "Posts or Comments of a Stack Exchange dump, in XML or CSV: a row for each sentence", Fixed: true,
		Columns: Columns{User: "OwnerUserId", Text: "Body", Time: "CreationDate", Score: "Score", Tags: "Tags", Group: "Id"},
		read:    (*reader).stackExchange,
	},
	Scheme{
		Form: LEAF, Summary: "the JSON of LEAF's Shakespeare, Sent140 or Reddit", Fixed: true,
		Columns: plainColumns, read: (*reader).leaf,
	},
	Scheme{
		Form: Texts, Summary: "text files, a folder of them or one for each user, or a tar archive of such", Fixed: true,
		Columns: plainColumns, read: (*reader).texts,
	},
)

// Schemes lists all forms.
func Schemes() []Scheme { return schemes.Entries() }

// Find returns the scheme of a form.
func Find(f Form) (Scheme, error) { return schemes.Find(f) }

// Choices lists the forms for an experiment file.
func (Form) Choices() []string { return schemes.Words() }

// Columns names the fields of a row. An empty name means the form's default.
type Columns struct {
	User   string `json:"user,omitempty"`
	Text   string `json:"text,omitempty"`
	Target string `json:"target,omitempty"`
	Time   string `json:"time,omitempty"`
	Score  string `json:"score,omitempty"`
	Tags   string `json:"tags,omitempty"`
	Group  string `json:"group,omitempty"`
	// Split is the column of the splits, for a form without its own splits; empty if there is none.
	Split string `json:"split,omitempty"`
}

var plainColumns = Columns{User: "user", Text: "text", Target: "target", Time: "time", Score: "score", Tags: "tags", Group: "group"}

// Or replaces empty names by those of others.
func (c Columns) Or(others Columns) Columns {
	return Columns{
		User: cmp.Or(c.User, others.User), Text: cmp.Or(c.Text, others.Text), Target: cmp.Or(c.Target, others.Target),
		Time: cmp.Or(c.Time, others.Time), Score: cmp.Or(c.Score, others.Score), Tags: cmp.Or(c.Tags, others.Tags), Group: cmp.Or(c.Group, others.Group),
		Split: cmp.Or(c.Split, others.Split),
	}
}

// list returns the names in a fixed order.
func (c Columns) list() []string {
	return []string{c.User, c.Text, c.Target, c.Time, c.Score, c.Tags, c.Group, c.Split}
}

// Needs selects the fields to read in addition to user and text. Other fields may have any content.
type Needs struct{ Target, Time, Score, Tags, Group, Split bool }

// field reports whether a field is read, by its index in Columns.list.
func (n Needs) field(field int) bool {
	return [...]bool{true, true, n.Target, n.Time, n.Score, n.Tags, n.Group, n.Split}[field]
}

// Row is one example. A nil field is missing or null.
type Row struct {
	User, Text, Target *string
	// Time is a string or a float64.
	Time  any
	Score *float64
	Tags  []string
	// Group within the user's rows, such as an album or a document.
	Group *string
	// Split is the split of the row; nil without splits.
	Split *string
	// Unit and Number are the position: "row" 7, from 1.
	Unit   string
	Number int
}

// Fault is the error of a row, or of the remaining file.
type Fault struct {
	Unit   string // empty for a fault of the whole file
	Number int
	Err    error
	// Mistaken is set if the file does not have the form in the options.
	Mistaken bool
}

func (f *Fault) Error() string {
	if f.Unit == "" {
		return f.Err.Error()
	}
	return fmt.Sprintf("%s %d: %v", f.Unit, f.Number, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

// Options holds options for reading a file.
type Options struct {
	// Columns are the columns with other names than the form's defaults.
	Columns Columns
	Needs   Needs
	// Splits to read if the form has its own splits; empty means "train".
	Splits []string
	// Unit is the unit of text files.
	Unit Unit
	// MaxRow is the longest row, in bytes.
	MaxRow int
	// Ratio bounds the growth of a compressed file, as a multiple of its size.
	Ratio int
}

// TrainSplit is the default split.
const TrainSplit = "train"

// Rows yields the rows of a file in order. After a *Fault more rows may follow.
// Other errors, from the content or ctx, end the rows. Memory does not grow with the file; forms
// that need random access keep it in a temporary file.
func (s Scheme) Rows(ctx context.Context, content io.Reader, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := &reader{ctx: ctx, content: content, Options: o, yield: yield}
		r.columns = o.Columns.Or(s.Columns)
		if len(o.Splits) == 0 {
			r.Splits = []string{TrainSplit}
		}
		if err := s.read(r); err != nil && err != errEnough {
			yield(Row{}, err)
		}
	}
}

// Names returns the column names of a file; for JSON lines, the names in the first object; nil for
// a form without column names. It returns the errors of Rows.
func (s Scheme) Names(ctx context.Context, content io.Reader, o Options) ([]string, error) {
	if s.names == nil {
		return nil, nil
	}
	return s.names(&reader{ctx: ctx, content: content, Options: o})
}

// errEnough ends the reading of a file when the caller stops.
var errEnough = errors.New("enough")

// reader reads one file.
type reader struct {
	Options
	ctx     context.Context
	content io.Reader
	columns Columns
	yield   func(Row, error) bool
	rows    int
}

func (r *reader) row(row Row) error {
	if r.rows++; r.rows%1024 == 0 && r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if !r.yield(row, nil) {
		return errEnough
	}
	return nil
}

// skip yields the fault of a row.
func (r *reader) skip(unit string, number int, err error) error {
	if !r.yield(Row{}, &Fault{Unit: unit, Number: number, Err: err}) {
		return errEnough
	}
	return nil
}

// put yields a row or its fault.
func (r *reader) put(row Row, fault error) error {
	if fault != nil {
		return r.skip(row.Unit, row.Number, fault)
	}
	return r.row(row)
}

// mistaken returns the fault of a file that does not have the form in the options.
func mistaken(format string, args ...any) error {
	return &Fault{Err: fmt.Errorf(format, args...), Mistaken: true}
}

// damaged returns the fault of a file that cannot be read further.
func damaged(format string, args ...any) error {
	return &Fault{Err: fmt.Errorf(format, args...)}
}

// required reports whether a column must exist: the user named it, or every row needs it.
func (r *reader) required(name string) bool {
	return name == r.columns.User || name == r.columns.Text || (name != "" && slices.Contains(r.Options.Columns.list(), name))
}

// places returns the indexes of the used columns, in the order of Columns.list; -1 for a missing
// one.
func (r *reader) places(names []string) ([]int, error) {
	wanted := r.columns.list()
	places := make([]int, len(wanted))
	for i, name := range wanted {
		if places[i] = -1; name != "" {
			var err error
			if places[i], err = placeOf(names, name); err != nil {
				return nil, err
			}
		}
		if places[i] < 0 && r.required(name) {
			return nil, mistaken("there is no column %q; expected one of %s: name them by data.columns, or by --column user=NAME", name, Quoted(names))
		}
		if !r.Needs.field(i) {
			places[i] = -1
		}
	}
	return places, nil
}

// placeOf finds a column by its unique name; -1 if there is none.
func placeOf(names []string, name string) (int, error) {
	at := slices.Index(names, name)
	if at >= 0 && slices.Contains(names[at+1:], name) {
		return 0, mistaken("there are several columns %q; expected one: rename the others", name)
	}
	return at, nil
}

// Quoted lists quoted names for a message.
func Quoted(names []string) string {
	const most = 20
	var list []string
	for i, name := range names {
		if i == most {
			list = append(list, fmt.Sprintf("and %d others", len(names)-i))
			break
		}
		list = append(list, strconv.Quote(name))
	}
	return strings.Join(list, ", ")
}

// Indexes of fields in Columns.list.
const (
	scoreField = iota + 4
	tagsField
	groupField
	splitField
)

// fill sets a field of a row, by its index in Columns.list, from text.
func (r *Row) fill(field int, text string) error {
	switch field {
	case 0:
		r.User = &text
	case 1:
		r.Text = &text
	case 2:
		r.Target = &text
	case 3:
		r.Time = timeOf(text)
	case scoreField:
		score, ok := Number(strings.TrimSpace(text))
		if !ok {
			return &numberError{text}
		}
		r.Score = &score
	case tagsField:
		r.Tags = tagsOf(text)
	case groupField:
		r.Group = &text
	case splitField:
		r.Split = &text
	}
	return nil
}

// ToUTF8 is the remedy for texts that are not UTF-8; most are in Windows-1252, or in Latin-1,
// which is part of it.
const ToUTF8 = "convert the file to UTF-8; if it is in Windows-1252 or Latin-1, by: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"

// InvalidAt returns the offset of the first byte of a text that is not UTF-8, or its length if all
// are.
func InvalidAt(text string) int {
	for at, r := range text {
		if _, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return at
		}
	}
	return len(text)
}

// numberError reports a text instead of a number.
type numberError struct{ text string }

func (e *numberError) Error() string { return "the score " + e.is() }

func (e *numberError) is() string { return fmt.Sprintf("is %.40q; expected a number", e.text) }

// Number parses a finite decimal number, such as -2.5e3. It rejects other programs' marks for
// missing or infinite numbers ("NaN", "Inf", "NA"), and hexadecimal digits.
func Number(text string) (float64, bool) {
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// timeOf returns a number if the text is one. Dates in the format of databases, such as "2017-05-08
// 15:41:01.78 UTC", are converted to RFC 3339.
func timeOf(text string) any {
	if number, ok := Number(text); ok {
		return number
	}
	if day, rest, ok := strings.Cut(text, " "); ok && len(day) == len("2017-05-08") {
		if at, ok := strings.CutSuffix(rest, " UTC"); ok {
			rest = at + "Z"
		}
		return day + "T" + rest
	}
	return text
}

// tagsOf returns the tags in a text: "<go><redis>", "|go|redis|", or words separated by commas.
func tagsOf(text string) []string {
	var separators string
	switch {
	case strings.HasPrefix(text, "<"):
		separators = "<>"
	case strings.Contains(text, "|"):
		separators = "|"
	default:
		separators = ","
	}
	tags := []string{}
	for tag := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}
