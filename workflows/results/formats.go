package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// Format is a form in which results are written.
type Format struct {
	// Name is the format's name in --format and the API.
	Name string
	// Description describes the content in a few words.
	Description string
	// MediaType is its Content-Type.
	MediaType string
	// Extension is the extension of a file name, with its dot. A browser saves a format with an Extension
	// unless it is Shown; it shows other formats.
	Extension string
	// Shown makes a browser show the format, and save it under a name on request.
	Shown bool
	// Pictures reports whether the format shows Results.Pictures.
	Pictures bool

	// write writes the cells. It is nil if flat does.
	write func(*view, io.Writer) error
	// flat writes a table with one value per column. It is nil if the format has no such form.
	flat func(*flatTable, io.Writer) error
}

// jsonName is the name of the format with all data.
const jsonName = "json"

// formats is the registry for the command, its completion, the API and the page. The first is the
// command's default.
var formats = []Format{
	{
		Name: "table", Description: "the columns of the papers, for people", MediaType: "text/plain; charset=utf-8",
		write: func(v *view, w io.Writer) error { return (*Terminal)(nil).write(v, readable.Writer(w)) }, flat: writeListed,
	},
	{Name: jsonName, Description: "everything, with every canary and every audited round", MediaType: "application/json", write: (*view).writeJSON},
	{
		Name: "csv", Description: "a row for each cell, canary, attack or round", MediaType: "text/csv; charset=utf-8", Extension: ".csv",
		flat: writeCSV,
	},
	{Name: "latex", Description: "the table, for a paper", MediaType: "text/x-latex; charset=utf-8", Extension: ".tex", write: (*view).writeLaTeX},
	{
		Name: "parquet", Description: "a row for each cell, canary, attack or round", MediaType: "application/vnd.apache.parquet", Extension: ".parquet",
		flat: writeParquet,
	},
	{Name: "html", Description: "a standalone page with figures", MediaType: "text/html; charset=utf-8", Extension: ".html", Shown: true, Pictures: true, write: (*view).writeHTML},
}

// Disposition returns the format's Content-Disposition in HTTP (RFC 6266).
func (f *Format) Disposition() string {
	if f.Extension == "" || f.Shown {
		return "inline"
	}
	return "attachment"
}

// Rows is the unit of a row.
type Rows string

// Units of rows.
const (
	Cells         Rows = "cells"
	Canaries      Rows = "canaries"
	Attacks       Rows = "attacks"
	AttackedUsers Rows = "attacked-users"
	Membership    Rows = "membership"
	Means         Rows = "means"
	Differences   Rows = "differences"
	Numbers       Rows = "numbers"
	RoundRows     Rows = "rounds" // from Rounds, not from Results
)

// flatTables returns the tables of results by the unit of their rows.
var flatTables = map[Rows]func(*view) (*flatTable, error){
	Cells: cellRows, Canaries: canaryRows, Attacks: attackRows, AttackedUsers: userRows, Membership: memberRows, Means: meanRows, Differences: differenceRows, Numbers: numberRows,
}

// flat returns the table of such rows with the warnings of the run. Its numbers have no marks.
func (v *view) flat(rows Rows) (*flatTable, error) {
	t, err := flatTables[rows](v)
	if err != nil {
		return nil, err
	}
	for _, text := range v.warnings() {
		t.warnings = append(t.warnings, strings.Replace(text, ": "+audits.Mark+" ", ": ", 1))
	}
	return t, nil
}

// Units lists the units of rows.
func Units() []Rows {
	return []Rows{Cells, Canaries, Attacks, AttackedUsers, Membership, Means, Differences, Numbers, RoundRows}
}

// UnitNames lists the names of the units, separated by commas.
func UnitNames(units []Rows) string {
	return strings.Join(lists.Map(units, func(r Rows) string { return string(r) }), ", ")
}

// Formats lists the formats of results.
func Formats() []Format { return slices.Clone(formats) }

// FormatNames lists the names of the formats.
func FormatNames() []string { return lists.Map(formats, Format.name) }

func (f Format) name() string { return f.Name }

// FormatNamed returns the format with a name.
func FormatNamed(name string) (Format, error) {
	if f := lists.Find(formats, func(f *Format) bool { return f.Name == name }); f != nil {
		return *f, nil
	}
	return Format{}, fmt.Errorf("format %.40q: expected one of %s", name, strings.Join(FormatNames(), ", "))
}

// Write writes the results in the named format.
func (r *Results) Write(w io.Writer, format string) error { return r.WriteRows(w, format, Cells) }

// WriteRows writes the results in a format with a row for each unit. Only some formats support units other
// than Cells. Canaries are those of the canaries block and of audits. Attacks and AttackedUsers are attacks on
// updates, Membership attacks on membership. Means has each number of each row of replicates, Differences each
// number of each two compared rows, and Numbers each number in the JSON. RoundRows are written by Rounds.
func (r *Results) WriteRows(w io.Writer, format string, rows Rows) error {
	f, err := formatWith(format, rows)
	if err != nil {
		return err
	}
	v, err := r.view()
	if err != nil {
		return err
	}
	switch {
	case rows == RoundRows:
		return errors.New("rounds are written by Rounds")
	case rows == Cells && f.write != nil:
		return f.write(v, w)
	}
	t, err := v.flat(rows)
	if err != nil {
		return err
	}
	return f.flat(t, w)
}

// formatWith returns the format with a name. It returns an error if the format does not support the rows.
func formatWith(name string, rows Rows) (Format, error) {
	f, err := FormatNamed(name)
	if err == nil {
		err = f.Has(rows)
	}
	return f, err
}

// Has returns an error if the format does not support a row for each unit.
func (f Format) Has(rows Rows) error {
	has := func(f Format) bool { return f.flat != nil }
	switch {
	case rows == Cells:
		return nil
	case rows == RoundRows:
		has = func(f Format) bool { return f.flat != nil || f.Name == jsonName }
	case flatTables[rows] == nil:
		return fmt.Errorf("rows %.40q: expected one of %s", rows, UnitNames(Units()))
	}
	if has(f) {
		return nil
	}
	others := lists.Map(lists.Filter(formats, has), Format.name)
	return fmt.Errorf("format %s has no rows of %s; expected one of %s", f.Name, rows, strings.Join(others, ", "))
}

// document is the complete results as JSON, with the data of the figures of all cells.
type document struct {
	*Results
	// Rows are the rows of replicates, Differences the differences between them.
	Rows        []*viewRow   `json:"rows,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	Best        *Best        `json:"best,omitempty"`
	Charts      []Chart      `json:"charts,omitempty"`
	// NotesOnce are Table.NotesOnce.
	NotesOnce []string `json:"notes_once,omitempty"`
}

// writeJSON writes the complete results as one JSON object.
func (v *view) writeJSON(w io.Writer) error {
	return encodeJSON(w, document{v.Results, v.rows, v.differences, v.best, v.charts(), v.once(v.allNotes())})
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(readable.JSON(w))
	e.SetIndent("", " ")
	return e.Encode(v)
}
