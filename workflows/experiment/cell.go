package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// Spec is a whole experiment in resolved form. Files with equal specs describe the same experiment. A run's
// record stores its JSON.
type Spec struct {
	// Name is the name of the experiment, which all cells share.
	Name string `json:"name"`
	// Cells are the distinct cells of the grid in order. There is at least one.
	Cells []Cell `json:"cells"`
	// Sources maps the data.sha256 of each source with several files to the digests of these files.
	Sources map[string][]storage.Digest `json:"sources,omitempty"`
}

// Cell is one point of the grid.
type Cell struct {
	// Index counts from 0.
	Index int `json:"index"`
	// Name is short and unique within the run, such as "c03".
	Name string `json:"name"`
	// Label describes the cell in the papers' terms, such as "iid, FedAvg, b=500".
	Label string `json:"label"`
	// Axes are the values that define this cell, in the order of the grid. They are empty without a grid.
	Axes Axes `json:"axes"`
	// Row is the row of the results table that contains the cell, with grid.replicates.
	Row *Row `json:"row,omitempty"`
	// Experiment is the complete configuration.
	Experiment Experiment `json:"experiment"`

	tree      *node        // tree of the file, for messages; nil after ReadSpec
	shortened int          // requested rounds, if the privacy budget allows fewer
	data      *audits.Data // nil until Resolve
	phrases   []int        // see Facts
	sizes     map[int]int  // see Facts

	similar datasets.SimilarUsers // see Facts
}

// Row is a row of the results table: the cells of one point of the grid, which differ only in the seed,
// their last axis.
type Row struct {
	// Name is short and unique within the run, such as "r03".
	Name string `json:"name"`
	// Label is the label of a cell without its seed.
	Label string `json:"label"`
}

// place returns the position of a field. For a cell from a record, it contains only the name of the experiment.
func (c *Cell) place(path string) position {
	if c.tree == nil {
		return position{source: c.Experiment.Name}
	}
	return c.tree.place(path)
}

// Where returns the beginning of a message about a field, such as "study.yaml:12:11: data.source".
func (c *Cell) Where(path string) string { return c.Problem(path, "").where() }

// Problem describes a mistake in a field, found outside this package.
func (c *Cell) Problem(path, format string, args ...any) Problem {
	at := c.place(path)
	return Problem{Source: at.source, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)}
}

// Axes are values with their paths, in order. Their JSON is one object.
type Axes []Axis

// Axis is the value of one axis in one cell.
type Axis struct {
	Path string
	// Value is the JSON value in the resolved experiment, or null if the cell removes the field.
	Value json.RawMessage
}

// Text returns the value for people: its JSON, with text unquoted.
func (a Axis) Text() string { return plain(a.Value) }

// MarshalJSON writes an object in the order of the axes.
func (a Axes) MarshalJSON() ([]byte, error) {
	object := make(encoding.Object, len(a))
	for i, axis := range a {
		object[i] = encoding.Member{Name: axis.Path, Value: axis.Value}
	}
	return object.MarshalJSON()
}

// UnmarshalJSON reads an object and keeps the order of its members.
func (a *Axes) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("axes of a cell: expected an object, found %.40s", data)
	}
	*a = Axes{}
	for d.More() {
		path, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		*a = append(*a, Axis{path.(string), value})
	}
	return nil
}

// String returns a text such as "data.partition=iid, training.cohort=500".
func (a Axes) String() string {
	var b bytes.Buffer
	for i, axis := range a {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%s", readable.Text(axis.Path), plain(axis.Value))
	}
	return b.String()
}

// plain formats a JSON value for people: text is unquoted.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return readable.Text(text)
	}
	return string(value)
}

// Leaves splits a JSON object into the values that are not objects, in order, each with its path below
// path. A list counts as one value. Any other value is its own leaf.
func Leaves(path string, value json.RawMessage) Axes {
	value = bytes.TrimSpace(value)
	var members, out Axes
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &members) != nil {
		return Axes{{path, value}}
	}
	for _, m := range members {
		out = append(out, Leaves(strings.TrimPrefix(path+"."+m.Path, "."), m.Value)...)
	}
	return out
}

// Canonical returns the experiment as JSON, with fields in a fixed order, with defaults, and with each value in
// canonical form. A resolved experiment contains epochs and the rounds that follow from them.
func (e *Experiment) Canonical() []byte { return mustMarshal(e) }

// YAML returns a file for this experiment, without rounds that follow from epochs.
func (e *Experiment) YAML() ([]byte, error) {
	canonical := e.asFile().Canonical()
	text, err := encoding.YAMLFromJSON(canonical)
	if err != nil || readable.IsVisible(string(text)) {
		return text, err
	}
	// The library does not escape invisible characters. JSON, which is also YAML, can.
	var b bytes.Buffer
	if err := json.Indent(&b, canonical, "", "  "); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = fmt.Fprintf(readable.YAML(&out), "%s\n", &b)
	return out.Bytes(), err
}

// YAML returns one document per cell, each a complete experiment file.
func (s *Spec) YAML() ([]byte, error) {
	var out bytes.Buffer
	for i := range s.Cells {
		c := &s.Cells[i]
		text, err := c.Experiment.YAML()
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.Name, err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		fmt.Fprintf(&out, "# %s: %s\n%s", c.Name, c.Label, text)
	}
	return out.Bytes(), nil
}

// Digest identifies a resolved experiment.
func (e *Experiment) Digest() storage.Digest { return storage.DigestOf(e.Canonical()) }

// Canonical returns the spec as JSON, which ReadSpec reads.
func (s *Spec) Canonical() []byte { return mustMarshal(s) }

// Digest identifies the results of a run: a submission with an equal digest continues it.
func (s *Spec) Digest() storage.Digest { return storage.DigestOf(s.Canonical()) }

// mustMarshal encodes types with only finite numbers, text and valid JSON, and panics if that fails.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("experiment: a resolved value cannot be JSON: %v", err))
	}
	return data
}
