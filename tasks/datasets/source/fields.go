package source

import (
	"encoding/json"
	"errors"
	"strings"
	"time" //nolint:depguard // dates are parsed, and no clock is read

	"coalmine/internal/encoding"
	"coalmine/tasks/datasets/forms"
)

// Order is the order of a user's examples.
type Order string

// Orders.
const (
	// SourceOrder is the order of the lines.
	SourceOrder Order = "source"
	// TimeOrder is the order of the lines' "time"; ties are in order of the source.
	TimeOrder Order = "time"
)

// Choices lists the orders for an experiment file.
func (Order) Choices() []string { return []string{string(SourceOrder), string(TimeOrder)} }

// timed returns the form with the time of each example.
func (f lineForm) timed() lineForm {
	parse := f.parse
	f.wanted += ` (and "time", a date such as "2010-07-19T19:12:12Z" or a number, since data.order is time)`
	f.parse = func(line []byte) (Record, error) {
		rec, err := parse(line)
		if err == nil {
			rec.Time, err = parseTime(line)
		}
		return rec, err
	}
	return f
}

// dateLayouts are the layouts of RFC 3339, also without a zone, which means UTC, and without a time
// of day.
var dateLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly}

// parseTime reads the field "time" of a line: a number unchanged, a date as seconds since 1970.
func parseTime(line []byte) (float64, error) {
	var fields struct {
		Time json.RawMessage `json:"time"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return 0, err
	}
	if len(fields.Time) == 0 || string(fields.Time) == "null" {
		return 0, unexpected(`"time" is missing`)
	}
	var number float64
	if json.Unmarshal(fields.Time, &number) == nil {
		return number, nil
	}
	if text, err := encoding.JSONString(fields.Time); err == nil {
		if seconds, ok := parseDate(text); ok {
			return seconds, nil
		}
	}
	return 0, badLine(`"time" is %s; expected a date such as "2010-07-19T19:12:12Z" or "2010-07-19", or a number`, encoding.ShowJSON(fields.Time))
}

// parseDate returns a date in seconds since 1970.
func parseDate(text string) (seconds float64, ok bool) {
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
		}
	}
	return 0, false
}

func (f lineForm) grouped() lineForm {
	parse := f.parse
	f.wanted += ` (and "group", such as the name of an album or a document, since data.devices.prior is groups)`
	f.parse = func(line []byte) (Record, error) {
		rec, err := parse(line)
		if err == nil {
			rec.Group, err = parseGroup(line)
		}
		return rec, err
	}
	return f
}

// parseGroup reads the field "group" of a line: a text, or a number as written.
func parseGroup(line []byte) (string, error) {
	var fields struct {
		Group json.RawMessage `json:"group"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return "", err
	}
	if len(fields.Group) == 0 || string(fields.Group) == "null" {
		return "", unexpected(`"group" is missing`)
	}
	row, err := forms.ParseLine([]byte(`{"group":`+string(fields.Group)+`}`), forms.Columns{}, forms.Needs{Group: true})
	switch {
	case errors.Is(err, encoding.ErrHalfPair):
		return "", err
	case err != nil || row.Group == nil:
		return "", badLine(`"group" is %s; expected a text or a number`, encoding.ShowJSON(fields.Group))
	case *row.Group == "":
		return "", unexpected(`"group" is empty`)
	}
	return strings.Clone(*row.Group), nil
}
