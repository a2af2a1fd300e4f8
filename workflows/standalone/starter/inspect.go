// Package starter writes the first experiment file for new data: it finds the columns, counts users and
// words, and chooses sizes and canaries that fit.
//
//	data, err := starter.Inspect(ctx, src, source.Origin{}) // finds the columns of users and texts
//	file, err := data.Propose(ctx, starter.Options{Name: "posts", Epochs: 1})
//	text := file.Text()
package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"coalmine/internal/readable"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
	"coalmine/workflows/data/sources"
)

// Data is a source with the settings of its reading.
type Data struct {
	// Origin is the origin in the experiment file. SkipFaults is set if a record is faulty.
	source.Origin
	// Choices are the possible columns of the fields. It is nil if the form fixes the names.
	Choices []string
	// Alone reports whether no column names a user. Each text then counts as a user.
	Alone bool

	source *sources.Source
}

// Names of columns, without spaces and marks, by content. The first match wins.
var (
	userNames = []string{
		"user", "userid", "username", "author", "authorid", "authorname", "client", "clientid", "account", "accountid", "speaker",
		"speakerid", "customer", "customerid", "reviewer", "reviewerid", "member", "memberid", "writer", "sender", "screenname",
		"owneruserid", "owner", "person", "handle", "from", "autor", "nutzer", "benutzer", "auteur", "utilisateur", "usuario", //nolint:misspell // German and Spanish
	}
	textNames = []string{
		"text", "body", "content", "message", "sentence", "comment", "review", "reviewtext", "reviewbody", "post", "tweet",
		"utterance", "posttext", "commenttext", "messagetext", "fulltext", "selftext", "description", "document",
	}
	rowNames = []string{"id", "uuid", "guid", "rowid", "index", "row", "textid", "postid", "commentid", "messageid", "reviewid", "tweetid"}
)

// known returns the column with one of the names, or "".
func known(columns, names []string) string {
	letters := func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}
	for _, name := range names {
		if i := slices.IndexFunc(columns, func(c string) bool { return strings.Map(letters, c) == name }); i >= 0 {
			return columns[i]
		}
	}
	return ""
}

// Inspect finds the form of a source and the columns of users and texts, unless the origin names them.
func Inspect(ctx context.Context, src *sources.Source, o source.Origin) (*Data, error) {
	form, columns, err := src.Columns(ctx, o.Form)
	if err != nil {
		return nil, err
	}
	d := &Data{Origin: o, Choices: columns, source: src}
	d.Form = form
	d.divide(src.Splits())
	if columns == nil {
		return d, nil
	}
	if d.Columns.Text == "" {
		if d.Columns.Text, err = d.text(ctx); err != nil {
			return nil, err
		}
	}
	if d.Columns.User == "" {
		d.Columns.User = known(columns, userNames)
	}
	if d.Alone = d.Columns.User == "" || d.Columns.User == d.Columns.Text; d.Columns.User == "" {
		d.Columns.User = cmp.Or(known(columns, rowNames), d.Columns.Text)
	}
	d.dropUsual()
	return d, nil
}

// divide sets the splits train and test of a source that is divided into such files.
func (d *Data) divide(splits []string) {
	if d.Split == "" && slices.Contains(splits, forms.TrainSplit) {
		d.Split = forms.TrainSplit
		if slices.Contains(splits, "test") {
			d.TestSplit = "test"
		}
	}
}

// A column without a known name may hold texts if its first sampledTexts values have more than wordsOfText
// words on average.
const (
	sampledTexts = 200
	wordsOfText  = 2
)

// text finds the column of texts, by its name or by the longest values.
func (d *Data) text(ctx context.Context) (string, error) {
	if name := known(d.Choices, textNames); name != "" {
		return name, nil
	}
	best, texts, most := sample{words: wordsOfText}, 0, []string(nil)
	for _, column := range d.Choices {
		s := d.sampleOf(ctx, column)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if s.words > best.words {
			best = s
		}
		texts, most = texts+s.texts, append(most, s.String())
		if best.fault == nil {
			best.fault = s.fault
		}
	}
	switch {
	case best.column != "":
		return best.column, nil
	case texts == 0 && best.fault != nil:
		return "", best.fault
	}
	return "", &source.Error{File: d.source.Name, Err: fmt.Errorf("no column has more than %d words per text on average: %s; name the column of texts with --column text=NAME", wordsOfText, strings.Join(most, ", "))}
}

// sample describes the first texts of a column: their number, and their mean number of words. fault is the
// error that ended the reading, if any.
type sample struct {
	column string
	texts  int
	words  float64
	fault  error
}

func (s sample) String() string {
	if wrong, ok := errors.AsType[*source.Error](s.fault); ok && s.texts == 0 {
		return fmt.Sprintf("%q %v", s.column, wrong.Err)
	}
	return fmt.Sprintf("%q has %.3g in %s", s.column, s.words, readable.Count(s.texts, "text"))
}

// sampleOf reads the first texts of a column.
func (d *Data) sampleOf(ctx context.Context, column string) sample {
	reading := source.Reading{Origin: d.Origin}
	reading.SkipFaults, reading.Columns.User, reading.Columns.Text = true, column, column
	s, words := sample{column: column}, 0
	for r, err := range d.source.Records(ctx, source.Limits{}, reading) {
		if s.fault = err; err != nil || s.texts == sampledTexts {
			break
		}
		words += len(strings.Fields(r.Text))
		s.texts++
	}
	s.words = float64(words) / float64(max(1, s.texts))
	return s
}

// dropUsual clears the names of columns that are the form's defaults.
func (d *Data) dropUsual() {
	if c := &d.Columns; c.User == "user" {
		c.User = ""
	}
	if c := &d.Columns; c.Text == "text" {
		c.Text = ""
	}
}

// unused lists the columns that hold neither users nor texts.
func (d *Data) unused() []string {
	return slices.DeleteFunc(slices.Clone(d.Choices), func(c string) bool {
		return c == cmp.Or(d.Columns.User, "user") || c == cmp.Or(d.Columns.Text, "text")
	})
}
