package forms

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"coalmine/internal/dataformats"
	"coalmine/internal/tempfiles"
)

// tff yields the rows of a split of a database of TensorFlow Federated. Its Stack Overflow has the
// features tokens (a sentence, with its words separated), title, tags, creation_date, score and
// type.
func (r *reader) tff() error {
	file, err := tempfiles.SpoolNamed(r.content)
	if err != nil {
		return err
	}
	defer file.Close()
	if r.columns.User != clientColumn || r.columns.Split != splitColumn {
		return mistaken("the users of this form are its clients, and its splits have a column of their own; expected no data.columns.user and no data.columns.split")
	}
	last := int64(0)
	for x, err := range dataformats.TFFRows(r.ctx, file.Name(), r.Splits) {
		if err != nil && r.ctx.Err() == nil {
			return tffFault(last, err)
		}
		if err != nil {
			return err
		}
		last = x.Number
		if err := r.put(r.tffRow(x)); err != nil {
			return err
		}
	}
	return nil
}

// tffFault distinguishes a database damaged after row last, 0 before the first, from a database of
// another kind.
func tffFault(last int64, err error) error {
	_, absent := errors.AsType[*dataformats.TFFNotFoundError](err)
	_, other := errors.AsType[*dataformats.TFFOtherError](err)
	if absent || other {
		return mistaken("%w", err)
	}
	if last == 0 {
		return damaged("%w", err)
	}
	return damaged("after row %d: %w", last, err)
}

// Columns of the tables.
const (
	clientColumn = "client_id"
	splitColumn  = "split_name"
)

func (r *reader) tffRow(x dataformats.TFFRow) (Row, error) {
	row := Row{User: x.Client, Split: &x.Split, Unit: "row", Number: int(x.Number)}
	wanted := r.columns.list()
	seen := make([]string, 0, 8)
	var wrong error
	err := dataformats.TFFFeatures(x.Example, func(name string, f dataformats.TFFFeature) error {
		seen = append(seen, name)
		if field := slices.Index(wanted, name); field > 0 && r.Needs.field(field) {
			wrong = row.feature(field, name, f)
		}
		return wrong
	})
	switch {
	case wrong != nil:
		return row, wrong
	case err != nil:
		return row, fmt.Errorf("no tf.train.Example: %w", err)
	}
	switch {
	case len(seen) == 0:
		return row, fmt.Errorf("the example has no features; expected the feature %q", r.columns.Text)
	case row.Text == nil:
		slices.Sort(seen)
		return row, fmt.Errorf("there is no feature %q; expected one of %s, or say by data.columns.text which it is", r.columns.Text, Quoted(seen))
	}
	return row, nil
}

// feature sets a field, by its index in Columns.list, to the value of a feature; tags may have
// several values.
func (r *Row) feature(field int, name string, f dataformats.TFFFeature) error {
	texts, err := featureTexts(f)
	switch {
	case err != nil:
		return fmt.Errorf("no tf.train.Example: %w", err)
	case len(texts) == 0:
		return nil
	case len(texts) == 1:
		return r.fill(field, texts[0])
	case field == tagsField:
		r.Tags = texts
		return nil
	}
	return fmt.Errorf("the feature %q has %d values; expected one", name, len(texts))
}

// featureTexts returns the values of a feature as texts.
func featureTexts(f dataformats.TFFFeature) ([]string, error) {
	texts, err := f.Texts()
	if err != nil || len(texts) > 0 {
		return texts, err
	}
	ints, err := f.Ints()
	for _, x := range ints {
		texts = append(texts, strconv.FormatInt(x, 10))
	}
	if err != nil || len(texts) > 0 {
		return texts, err
	}
	floats, err := f.Floats()
	for _, x := range floats {
		texts = append(texts, strconv.FormatFloat(float64(x), 'g', -1, 32))
	}
	return texts, err
}
