package forms

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"coalmine/internal/dataformats"
	"coalmine/internal/encoding"
)

// leaf yields the examples of LEAF's data sets of text. The form of an example identifies the data
// set:
//
//	Shakespeare  a text of 80 characters; its label, the next one, follows it
//	Sent140      [id, date, query, name, text, …]; its label, 0 or 1, is its tag
//	Reddit       lists of words; <BOS>, <EOS> and <PAD> are left out
func (r *reader) leaf() error {
	number := 0
	for x, err := range dataformats.LEAFExamples(r.content) {
		if wrong, ok := errors.AsType[*dataformats.LEAFSyntaxError](err); ok {
			return damaged("%w", wrong)
		}
		if err != nil {
			return err
		}
		number++
		row := Row{User: &x.User, Unit: "example", Number: number}
		fault := row.leaf(x.X, x.Y)
		if err := r.put(row, cmp.Or(x.Misnamed, fault)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Row) leaf(x, y json.RawMessage) error {
	if !utf8.Valid(x) || !utf8.Valid(y) {
		return errors.New("the example is not valid UTF-8; " + ToUTF8)
	}
	if encoding.HalfPair(x) || encoding.HalfPair(y) {
		return fmt.Errorf("the example %w", encoding.ErrHalfPair)
	}
	if text, err := encoding.JSONString(x); err == nil {
		return r.shakespeare(text, y)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(x, &list); err != nil || len(list) == 0 {
		return fmt.Errorf("%s; expected a text, or a list", encoding.ShowJSON(x))
	}
	if list[0][0] == '[' {
		return r.reddit(x)
	}
	return r.sent140(list, y)
}

func (r *Row) shakespeare(text string, y json.RawMessage) error {
	next, err := encoding.JSONString(y)
	if err != nil {
		return fmt.Errorf("the label is %s; expected the text that comes next", encoding.ShowJSON(y))
	}
	text += next
	r.Text = &text
	return nil
}

// Positions of the fields in an example of Sent140.
const (
	sentDate = 1
	sentText = 4
)

func (r *Row) sent140(list []json.RawMessage, y json.RawMessage) error {
	if len(list) <= sentText {
		return fmt.Errorf("a list of %d; expected id, date, query, name and text", len(list))
	}
	date, err := encoding.JSONString(list[sentDate])
	text, other := encoding.JSONString(list[sentText])
	if err := errors.Join(err, other); err != nil {
		return fmt.Errorf("%w; expected id, date, query, name and text", err)
	}
	r.Text, r.Time = &text, twitterDate(date)
	r.Tags = []string{strings.Trim(string(y), `"`)}
	return nil
}

// twitterDate turns "Mon Apr 06 22:19:45 PDT 2009" into a date of RFC 3339, and returns other texts
// unchanged.
func twitterDate(text string) string {
	f := strings.Fields(text)
	if len(f) != 6 {
		return text
	}
	offset, known := map[string]string{"PDT": "-07:00", "PST": "-08:00", "UTC": "Z", "GMT": "Z"}[f[4]]
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", f[1])
	if !known || month < 0 || month%3 != 0 {
		return text
	}
	return fmt.Sprintf("%s-%02d-%sT%s%s", f[5], month/3+1, f[2], f[3], offset)
}

func (r *Row) reddit(x json.RawMessage) error {
	var lists [][]*string
	if err := json.Unmarshal(x, &lists); err != nil {
		return fmt.Errorf("%w; expected lists of words", err)
	}
	var words []string
	for _, list := range lists {
		for _, word := range list {
			if word == nil {
				return errors.New("a word is null; expected lists of words")
			}
			if *word != "<BOS>" && *word != "<EOS>" && *word != "<PAD>" {
				words = append(words, *word)
			}
		}
	}
	text := strings.Join(words, " ")
	r.Text = &text
	return nil
}
