package forms

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/spool"
	"coalmine/internal/tff"
)

// tff yields the rows of a split of a database of TensorFlow Federated. Its Stack Overflow has
// the features tokens (a sentence, its words taken apart), title, tags, creation_date, score
// and type.
func (r *reader) tff() error {
	file, err := spool.Copy(r.content)
	if err != nil {
		return err
	}
	defer file.Close()
	if r.columns.User != clientColumn || r.columns.Split != splitColumn {
		return mistaken("the users of this form are its clients, and its splits have a column of their own; expected no data.columns.user and no data.columns.split")
	}
	last := int64(0)
	err = tff.Each(r.ctx, file.Name(), r.Splits, func(x tff.Row) error {
		last = x.Number
		row, err := r.tffRow(x)
		if err != nil {
			return r.stopped(r.skip("row", int(x.Number), err))
		}
		return r.stopped(r.row(row))
	})
	if stop, ok := errors.AsType[*stopError](err); ok {
		return stop.error
	}
	if err != nil && r.ctx.Err() == nil {
		return tffFault(last, err)
	}
	return err
}

// tffFault tells a database of which nothing more can be read after a row, 0 before the first,
// from one that is another.
func tffFault(last int64, err error) error {
	_, absent := errors.AsType[*tff.NotFoundError](err)
	_, other := errors.AsType[*tff.OtherError](err)
	if absent || other {
		return mistaken("%w", err)
	}
	if last == 0 {
		return damaged("%w", err)
	}
	return damaged("after row %d: %w", last, err)
}

// Columns that the tables have.
const (
	clientColumn = "client_id"
	splitColumn  = "split_name"
)

// stopError tells an error of whoever reads the rows from one of the database.
type stopError struct{ error }

func (r *reader) stopped(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

func (r *reader) tffRow(x tff.Row) (Row, error) {
	row := Row{User: x.Client, Split: &x.Split, Unit: "row", Number: int(x.Number)}
	wanted := r.columns.list()
	seen := make([]string, 0, 8)
	err := tff.Features(x.Example, func(name string, f tff.Feature) error {
		seen = append(seen, name)
		field := slices.Index(wanted, name)
		if field < 1 {
			return nil
		}
		text, ok, err := featureText(f)
		if err != nil || !ok {
			return err
		}
		return row.fill(field, text)
	})
	if err != nil {
		return row, fmt.Errorf("no tf.train.Example: %w", err)
	}
	switch {
	case len(seen) == 0:
		return row, fmt.Errorf("the example has no features; expected the feature %q", r.columns.Text)
	case row.Text == nil:
		slices.Sort(seen)
		return row, fmt.Errorf("there is no feature %q; expected one of %s, or say by data.columns.text which it is", r.columns.Text, strings.Join(seen, ", "))
	}
	return row, nil
}

// featureText is the first value of a feature as text, false without one.
func featureText(f tff.Feature) (text string, ok bool, err error) {
	texts, err := f.Texts()
	if err != nil || len(texts) > 0 {
		return strings.Join(texts, "|"), err == nil, err
	}
	ints, err := f.Ints()
	if err != nil || len(ints) > 0 {
		return number(ints), err == nil, err
	}
	floats, err := f.Floats()
	if err != nil || len(floats) == 0 {
		return "", false, err
	}
	return strconv.FormatFloat(float64(floats[0]), 'g', -1, 32), true, nil
}

func number(ints []int64) string {
	if len(ints) == 0 {
		return ""
	}
	return strconv.FormatInt(ints[0], 10)
}
