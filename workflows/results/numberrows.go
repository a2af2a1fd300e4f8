package results

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// numberRow is a number in the JSON of a cell.
type numberRow struct {
	// Path is the place of the number in the cell, as jq names it: ".audit.canaries[0].rank".
	Path  string  `parquet:"path" doc:"place of the number in the JSON of the cell, as jq names it"`
	Value float64 `parquet:"value" doc:"number at that place"`
}

// numberRows returns a row for each number in the JSON of the cells, in its order. It includes numbers in
// lists, for which other rows have no columns.
func numberRows(v *view) (*flatTable, error) {
	t := newFlatTable("numbers", parts[Numbers])
	for i := range v.cells {
		c := &v.cells[i]
		data, err := json.Marshal(c.Cell)
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.Cell.Cell, err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		if err := eachNumber(d, "", func(path string, value float64) {
			t.add([]any{v.ofCell(c), numberRow{path, value}})
		}); err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.Cell.Cell, err)
		}
	}
	return t, nil
}

// eachNumber calls found with each number in the next value of the decoder and its path, which begins with path.
func eachNumber(d *json.Decoder, path string, found func(path string, value float64)) error {
	token, err := d.Token()
	switch value := token.(type) {
	case float64:
		found(path, value)
	case json.Delim:
		for i := 0; err == nil && d.More(); i++ {
			below := fmt.Sprintf("%s[%d]", path, i)
			if value == '{' {
				var name json.Token
				if name, err = d.Token(); err != nil {
					break
				}
				below = fmt.Sprintf("%s.%s", path, name)
			}
			err = eachNumber(d, below, found)
		}
		if err == nil {
			_, err = d.Token() // the end of the list or object
		}
	}
	return err
}
