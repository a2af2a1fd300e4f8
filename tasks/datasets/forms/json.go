package forms

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/dataformats"
	"coalmine/internal/encoding"
)

// ParseLine reads a line of JSON with renamed fields. Users and texts may be numbers.
func ParseLine(line []byte, c Columns, needs Needs) (Row, error) {
	names := c.Or(plainColumns).list()
	values, err := encoding.JSONFields(line, names...)
	if err != nil {
		return Row{}, err
	}
	row := Row{}
	for field, value := range values {
		if value == nil || names[field] == "" || !needs.field(field) || string(value) == "null" {
			continue
		}
		err := row.fillJSON(field, value)
		if wrong, ok := errors.AsType[*numberError](err); ok {
			err = errors.New(wrong.is())
		}
		if err != nil {
			return Row{}, &encoding.ValueError{Name: names[field], Err: err}
		}
	}
	return row, nil
}

// memberNames returns the names of the members of the first object with a text or a number.
func (r *reader) memberNames() ([]string, error) {
	content := bufio.NewReader(r.content)
	dataformats.SkipMark(content)
	var object map[string]json.RawMessage
	err := json.NewDecoder(content).Decode(&object)
	if errors.Is(err, io.EOF) {
		return nil, mistaken("the file is empty; expected an object of JSON on every line, or in a CSV file the names of its columns first")
	}
	if err != nil {
		return nil, mistaken("the first line is not JSON (%w); expected an object on every line", err)
	}
	for name, value := range object {
		if value[0] != '"' && (value[0] < '0' || value[0] > '9') && value[0] != '-' {
			delete(object, name)
		}
	}
	return slices.Sorted(maps.Keys(object)), nil
}

// fillJSON sets a field, by its index in Columns.list, from JSON.
func (r *Row) fillJSON(field int, value json.RawMessage) error {
	switch value[0] {
	case '"':
		text, err := encoding.JSONString(value)
		if err != nil {
			return err
		}
		return r.fill(field, text)
	case '[':
		if field == tagsField && encoding.HalfPair(value) {
			return encoding.ErrHalfPair
		}
		if field == tagsField && json.Unmarshal(value, &r.Tags) == nil {
			return nil
		}
	case '{', 't', 'f':
	default: // a number
		return r.fill(field, strings.TrimSpace(string(value)))
	}
	return fmt.Errorf("is %s; expected a text or a number", encoding.ShowJSON(value))
}
