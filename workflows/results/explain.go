package results

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// Column explains a column of results.
type Column struct {
	// Name is the column of CSV and Parquet. It is empty if only the table of cells has the column.
	Name string `json:"name,omitempty"`
	// Header is the header in the table of cells. It is empty without a column there.
	Header string `json:"header,omitempty"`
	// Path is the place, in the JSON of results, of a number that no table has, such as exposure.highest.
	Path string `json:"path,omitempty"`
	// Rows are the units of rows (--rows) whose tables have the column.
	Rows []Rows `json:"rows,omitempty"`
	// Audit is the audit that measures the value. It is empty if no audit does.
	Audit string `json:"audit,omitempty"`
	// Value describes the values: "integer", "number", "text" or "true or false", and the scale in tables.
	Value string `json:"value"`
	// Better is the direction of better numbers, if there is one.
	Better audits.Direction `json:"better,omitempty"`
	// Doc describes the value in a phrase without a full stop.
	Doc string `json:"doc"`
}

// parts are structs whose fields are the columns of a table, for tables that have equal columns in all runs.
var parts = map[Rows][]any{
	Attacks: {ofCell{}, audits.Attack{}, baselineRow{}}, AttackedUsers: {ofCell{}, audits.AttackedUser{}, baselineRow{}},
	Membership: {ofCell{}, audits.MemberAttack{}, baselineRow{}}, Means: {meanRow{}, estimateRow{}, pooledRow{}, baselineRow{}},
	Differences: {differenceRow{}, estimateRow{}, pairingRow{}, baselineRow{}}, Numbers: {ofCell{}, numberRow{}}, RoundRows: {ofCell{}, Round{}},
}

// Columns returns the columns of all tables of results, in their order. It merges columns with equal names
// and explanations. Numbers of outcomes that have no column come last. It omits the parameters of cells and
// the metrics of external programs.
func Columns() []Column {
	columns := columnsOf(Cells, ofCell{}, cellRow{})
	for _, place := range inColumnOrder() {
		d := &all.Audits()[place]
		columns = append(columns, measureColumns(Cells, d, d.Measures)...)
	}
	columns = append(columns, columnsOf(Cells, replicateRow{}, soFarRow{}, gateRow{}, unjudgedRow{})...)
	columns = append(columns, columnsOf(Canaries, ofCell{}, canaryRow{})...)
	for i := range all.Audits() {
		d := &all.Audits()[i]
		columns = append(columns, measureColumns(Canaries, d, d.Canary)...)
	}
	columns = append(columns, columnsOf(Canaries, replicateRow{}, rankedRow{}, baselineRow{})...)
	for _, rows := range Units()[2:] {
		columns = append(columns, columnsOf(rows, parts[rows]...)...)
	}
	columns = merged(columns)
	return append(columns, outcomeNumbers(columns)...)
}

// merged merges equal columns of several tables.
func merged(columns []Column) (list []Column) {
	for _, c := range columns {
		same := func(o Column) bool { return o.Name != "" && o.Name == c.Name && o.Doc == c.Doc && o.Audit == c.Audit }
		if at := slices.IndexFunc(list, same); at >= 0 {
			list[at].Rows = append(list[at].Rows, c.Rows...)
		} else {
			list = append(list, c)
		}
	}
	return list
}

// columnsOf returns the columns of the fields of structs with parquet tags.
func columnsOf(rows Rows, structs ...any) (columns []Column) {
	for _, s := range structs {
		columns = append(columns, fieldColumns(rows, reflect.TypeOf(s))...)
	}
	return columns
}

func fieldColumns(rows Rows, t reflect.Type) (columns []Column) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		switch doc := f.Tag.Get("doc"); {
		case f.Anonymous && name == "":
			columns = append(columns, fieldColumns(rows, f.Type)...)
		case doc != "":
			columns = append(columns, Column{Name: name, Rows: []Rows{rows}, Value: valueName(f.Type), Doc: doc})
		}
	}
	return columns
}

// measureColumns returns the columns of an audit's measures.
func measureColumns(rows Rows, d *audits.Description, measures []audits.Measure) (columns []Column) {
	for i := range measures {
		m := &measures[i]
		one := Column{Header: m.Header, Audit: d.Name, Better: m.Better}
		for _, f := range audits.FieldColumns(measures[i : i+1]) {
			c := one
			c.Name, c.Rows, c.Value, c.Doc = f.Name, []Rows{rows}, valueName(f.Type), f.Doc
			if m.Scale == audits.Percent && f.Type.Kind() == reflect.Float64 {
				c.Value += ", a share from 0 to 1, in tables in %"
			}
			if c.Name != m.Name {
				c.Header, c.Better = "", ""
			}
			columns = append(columns, c)
		}
		if m.Name == "" && m.Header != "" {
			one.Rows, one.Value, one.Doc = []Rows{rows}, "text", m.Doc
			columns = append(columns, one)
		}
	}
	return columns
}

// valueName names the values of a column of a Go type.
func valueName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	default:
		return "text"
	}
}

// Explain returns the columns with the given name, header or path. A path may begin with "audit.", and may
// omit the audit if the rest contains a dot. The path of a number that has a column, such as
// utility.perplexity, is that of the column.
func Explain(name string) []Column {
	path, columns := strings.TrimPrefix(name, "audit."), Columns()
	found := lists.Filter(columns, func(c Column) bool {
		return name != "" && (c.Name == name || c.Header == name || c.Path != "" && (c.Path == path || c.Path == c.Audit+"."+path && strings.Contains(path, ".")))
	})
	if audit, _, nested := strings.Cut(path, "."); nested && len(found) == 0 {
		if of := (&Column{Path: path, Audit: audit}).column(columns); of != nil {
			found = append(found, *of)
		}
	}
	return found
}

// Sentence returns the meaning of the column and the direction of better numbers.
func (c *Column) Sentence() string {
	m := audits.Measure{Doc: c.Doc, Better: c.Better}
	return sentence(&m)
}

// sentence explains a measure: its meaning, and the direction of better numbers.
func sentence(m *audits.Measure) string {
	if m.Better == "" {
		return m.Sentence()
	}
	return fmt.Sprintf("%s %s is better.", m.Sentence(), strings.ToUpper(string(m.Better[:1]))+string(m.Better[1:]))
}
