package source

import (
	"encoding/json"
	"errors"
	"fmt"
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

// with returns the form with one more field, which set reads.
func (f lineForm) with(name, wanted string, set func(*Record, json.RawMessage) error) lineForm {
	parse := f.parse
	f.wanted += fmt.Sprintf(" (and %q, %s)", name, wanted)
	f.parse = func(line []byte) (Record, error) {
		rec, err := parse(line)
		if err != nil {
			return rec, err
		}
		values, err := encoding.JSONFields(line, name)
		switch {
		case err != nil:
			return rec, err
		case values[0] == nil || string(values[0]) == "null":
			return rec, unexpected("%q is missing", name)
		}
		return rec, set(&rec, values[0])
	}
	return f
}

// timed returns the form with the time of each example.
func (f lineForm) timed() lineForm {
	return f.with("time", `a date such as "2010-07-19T19:12:12Z" or a number, since data.order is time`, func(rec *Record, value json.RawMessage) (err error) {
		rec.Time, err = parseTime(value)
		return err
	})
}

// dateLayouts are the layouts of RFC 3339, also without a zone, which means UTC, and without a time
// of day.
var dateLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly}

// parseTime reads the value of "time": a number unchanged, a date as seconds since 1970.
func parseTime(value json.RawMessage) (float64, error) {
	var number float64
	if json.Unmarshal(value, &number) == nil {
		return number, nil
	}
	if text, err := encoding.JSONString(value); err == nil {
		if seconds, ok := parseDate(text); ok {
			return seconds, nil
		}
	}
	return 0, badLine(`"time" is %s; expected a date such as "2010-07-19T19:12:12Z" or "2010-07-19", or a number`, encoding.ShowJSON(value))
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

// grouped returns the form with the group of each example.
func (f lineForm) grouped() lineForm {
	return f.with("group", "such as the name of an album or a document, since data.devices.prior is groups", func(rec *Record, value json.RawMessage) (err error) {
		rec.Group, err = parseGroup(value)
		return err
	})
}

// parseGroup reads the value of "group": a text, or a number as written.
func parseGroup(value json.RawMessage) (string, error) {
	row, err := forms.ParseLine([]byte(`{"group":`+string(value)+`}`), forms.Columns{}, forms.Needs{Group: true})
	switch {
	case errors.Is(err, encoding.ErrHalfPair):
		return "", err
	case err != nil || row.Group == nil:
		return "", badLine(`"group" is %s; expected a text or a number`, encoding.ShowJSON(value))
	case *row.Group == "":
		return "", unexpected(`"group" is empty`)
	}
	return strings.Clone(*row.Group), nil
}
