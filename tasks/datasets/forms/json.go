package forms

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ParseLine reads a line of JSON whose fields have other names than the usual ones. Users and
// texts may be numbers there.
func ParseLine(line []byte, c Columns) (Row, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Row{}, err
	}
	row := Row{}
	for field, name := range c.Or(plainColumns).list() {
		value, ok := fields[name]
		if !ok || name == "" || string(value) == "null" {
			continue
		}
		if err := row.fillJSON(field, value); err != nil {
			return Row{}, fmt.Errorf("%q: %w", name, err)
		}
	}
	return row, nil
}

// fillJSON sets a field, by its place in Columns.list, to a value of JSON.
func (r *Row) fillJSON(field int, value json.RawMessage) error {
	var text string
	switch value[0] {
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		return r.fill(field, text)
	case '[':
		if field == tagsField {
			return json.Unmarshal(value, &r.Tags)
		}
	case '{', 't', 'f':
	default: // a number
		return r.fill(field, strings.TrimSpace(string(value)))
	}
	return fmt.Errorf("%.40s; expected a text or a number", value)
}
