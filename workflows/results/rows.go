package results

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// flatTable is a table with one value per column, for CSV and Parquet. Its columns are the fields of
// several structs with parquet tags.
type flatTable struct {
	parts  []*parquet.Schema
	schema *parquet.Schema
	rows   []parquet.Row
	// lacking are the indexes of columns that may be null although their struct has no pointer.
	lacking []int
	// warnings are the notes below the table for people. They do not depend on its rows.
	warnings []string
}

// joined is a Parquet group that keeps the order of its fields.
type joined struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements parquet.Node.
func (j joined) Fields() []parquet.Field { return j.fields }

// newFlatTable returns a table with the columns of the structs' types.
func newFlatTable(name string, prototypes []any) *flatTable {
	t := &flatTable{}
	var root joined
	for _, p := range prototypes {
		schema := parquet.SchemaOf(p)
		t.parts = append(t.parts, schema)
		root.fields = append(root.fields, schema.Fields()...)
	}
	t.schema = parquet.NewSchema(name, root)
	return t
}

// mayLack allows nulls in some columns. It must be called before rows are added.
func (t *flatTable) mayLack(columns []string) {
	root, before := joined{fields: slices.Clone(t.schema.Fields())}, len(t.lacking)
	for i, f := range root.fields {
		if slices.Contains(columns, f.Name()) && f.Required() {
			root.fields[i] = optional{f}
			t.lacking = append(t.lacking, i)
		}
	}
	if len(t.lacking) > before {
		t.schema = parquet.NewSchema(t.schema.Name(), root)
	}
}

// lack sets these columns to null in the last row.
func (t *flatTable) lack(columns []string) {
	row := t.rows[len(t.rows)-1]
	for i, name := range t.header() {
		if slices.Contains(columns, name) {
			row[i] = parquet.NullValue().Level(0, 0, i)
		}
	}
}

// optional makes a required column optional.
type optional struct{ parquet.Field }

// Optional implements parquet.Node.
func (optional) Optional() bool { return true }

func (optional) Required() bool { return false }

// add appends a row made of one struct of each type.
func (t *flatTable) add(structs []any) {
	var row parquet.Row
	for i, part := range t.parts {
		offset := len(row)
		for j, v := range part.Deconstruct(nil, structs[i]) {
			defined := v.DefinitionLevel()
			if slices.Contains(t.lacking, offset+j) {
				defined++
			}
			row = append(row, v.Level(v.RepetitionLevel(), defined, offset+j))
		}
	}
	t.rows = append(t.rows, row)
}

func (t *flatTable) header() []string {
	return lists.Map(t.schema.Fields(), parquet.Field.Name)
}

// withMetrics appends a column metrics.NAME for each metric name of any row, ascending.
func (t *flatTable) withMetrics(metrics []map[string]float64) {
	names := map[string]bool{}
	for _, row := range metrics {
		for name := range row {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t.addColumn("metrics."+name, parquet.DoubleType, func(row int) (parquet.Value, bool) {
			number, there := metrics[row][name]
			return parquet.DoubleValue(number), there
		})
	}
}

// addColumn appends a column that is null in rows without a value.
func (t *flatTable) addColumn(name string, kind parquet.Type, of func(row int) (parquet.Value, bool)) {
	root := joined{fields: slices.Concat(t.schema.Fields(), parquet.Group{name: parquet.Optional(parquet.Leaf(kind))}.Fields())}
	t.schema = parquet.NewSchema(t.schema.Name(), root)
	for i, row := range t.rows {
		value, there := of(i)
		if there {
			value = value.Level(0, 1, len(row))
		} else {
			value = parquet.NullValue().Level(0, 0, len(row))
		}
		t.rows[i] = append(row, value)
	}
}

// finite replaces NaN and infinite numbers by null. For each column with an infinite number it appends a
// column NAME_infinite, which is true in those rows.
func (t *flatTable) finite() *flatTable {
	out := &flatTable{schema: t.schema}
	for _, row := range t.rows {
		out.rows = append(out.rows, withoutInfinite(slices.Clone(row)))
	}
	for c, f := range t.schema.Fields() {
		infinite := func(row int) (parquet.Value, bool) { return parquet.BooleanValue(true), isInfinite(t.rows[row][c]) }
		if f.Optional() && slices.ContainsFunc(t.rows, func(row parquet.Row) bool { return isInfinite(row[c]) }) {
			out.addColumn(f.Name()+"_infinite", parquet.BooleanType, infinite)
		}
	}
	return out
}

func isInfinite(v parquet.Value) bool { return v.Kind() == parquet.Double && math.IsInf(v.Double(), 0) }

// withoutInfinite replaces NaN and infinite numbers of optional columns by null.
func withoutInfinite(row parquet.Row) parquet.Row {
	for i, v := range row {
		if v.Kind() == parquet.Double && v.DefinitionLevel() > 0 && !numbers.IsFinite(v.Double()) {
			row[i] = parquet.NullValue().Level(0, 0, v.Column())
		}
	}
	return row
}

func writeParquet(t *flatTable, w io.Writer) error {
	t = t.finite()
	out := parquet.NewWriter(w, t.schema)
	if _, err := out.WriteRows(t.rows); err != nil {
		return err
	}
	return out.Close()
}

// writeCSV writes a header and a line per row. Absent values are empty.
func writeCSV(t *flatTable, w io.Writer) error {
	t = t.finite()
	out := csv.NewWriter(w)
	header := t.header()
	for i, name := range header {
		header[i] = readable.Cell(name) // metric names may come from external programs
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for _, row := range t.rows {
		if err := out.Write(lists.Map(row, csvValue)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func csvValue(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case v.Kind() == parquet.ByteArray:
		return readable.Cell(v.String())
	}
	return v.String()
}

// cellRow holds the columns that every cell has, after those of ofCell.
type cellRow struct {
	Partition string   `parquet:"partition" doc:"partition of the data: iid or by-user"`
	Setting   string   `parquet:"setting" doc:"setting of the papers' tables, if the cell is one of theirs"`
	Axes      string   `parquet:"axes" doc:"fields of the grid with their values, as JSON"`
	Status    string   `parquet:"status" doc:"state of the cell: done, failed, cancelled or pending"`
	Rounds    *int64   `parquet:"rounds" doc:"rounds of the training, of central training its steps"`
	Epochs    *float64 `parquet:"epochs" doc:"passes over the training data; empty if a program trains the whole model"`
	Users     *int64   `parquet:"users" doc:"users of the training data"`
	Examples  *int64   `parquet:"examples" doc:"examples of the training data"`
}

// firstColumns names the audits that have the first columns, in this order, for programs that read columns
// by number. The columns of other audits follow, in the order of all.Audits.
var firstColumns = []string{"utility", "random_sampling", "beam_search", "privacy", "one_run"}

// inColumnOrder returns the indexes of all descriptions in column order.
func inColumnOrder() []int {
	descriptions := all.Audits()
	order := lists.Make(len(descriptions), func(i int) int { return i })
	rank := func(i int) int {
		if at := slices.Index(firstColumns, descriptions[i].Name); at >= 0 {
			return at
		}
		return len(firstColumns)
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	return order
}

// cellRows returns one row per cell.
func cellRows(v *view) (*flatTable, error) { return newCellRows(v, v.parameterColumns()) }

func newCellRows(v *view, parameters *parameterColumns) (*flatTable, error) {
	parts := v.cellParts(parameters)
	structs := func(c *viewCell, row cellRow) []any {
		list := []any{v.ofCell(c), row}
		for _, part := range parts {
			list = append(list, part(c))
		}
		return list
	}
	t := newFlatTable("cells", structs(noCell(), cellRow{}))
	for i := range v.cells {
		row, err := v.cells[i].columns()
		if err != nil {
			return nil, err
		}
		t.add(structs(&v.cells[i], row))
	}
	return t, nil
}

// noCell returns a cell without values, from which the types of columns are taken.
func noCell() *viewCell {
	return &viewCell{Cell: &Cell{}, outcomes: make([]audits.Outcome, len(all.Audits()))}
}

// cellParts returns the further columns of cells, as functions that return the struct of a cell. Columns
// about replicates, trainings in progress and gates exist only if some cell has values for them.
func (v *view) cellParts(parameters *parameterColumns) (parts []func(*viewCell) any) {
	for _, place := range inColumnOrder() {
		parts = append(parts, func(c *viewCell) any { return ofAudits().outcomes[place].rowOf(c.shown(place)) })
	}
	if len(v.rows) > 0 {
		parts = append(parts, replicateOf)
	}
	if slices.ContainsFunc(v.cells, func(c viewCell) bool { return c.soFar != nil }) {
		parts = append(parts, soFarOf)
	}
	if v.gated() {
		parts = append(parts, gateOf)
	}
	if slices.ContainsFunc(v.cells, func(c viewCell) bool { return len(c.Unjudged) > 0 }) {
		parts = append(parts, func(c *viewCell) any { return unjudgedRow{list(c.Unjudged)} })
	}
	return append(parts, func(c *viewCell) any { return parameters.of(c.Cell) })
}

// soFarRow is the round of the audits' numbers of a cell in training.
type soFarRow struct {
	Round *int64 `parquet:"so_far_round" doc:"round of the numbers of a cell in training"`
	Of    *int64 `parquet:"so_far_of" doc:"rounds that a cell in training will take"`
}

func soFarOf(c *viewCell) any {
	if c.soFar == nil {
		return soFarRow{}
	}
	return soFarRow{new(int64(c.Interim.Measured.Round)), new(int64(c.Interim.Steps))}
}

// columns returns the columns that every cell has.
func (v *viewCell) columns() (cellRow, error) {
	axes, err := axesJSON(v.Axes)
	row := cellRow{Partition: v.Partition, Setting: v.Setting, Axes: axes, Status: v.Status}
	if v.Report != nil {
		t := &v.Training
		row.Rounds, row.Epochs, row.Users, row.Examples = new(int64(t.Rounds)), audits.When(t.Algorithm != string(experiment.External), t.Epochs), new(int64(t.Users)), new(int64(t.Examples))
	}
	return row, err
}

// axesJSON returns the JSON of axes with invisible characters escaped.
func axesJSON(axes experiment.Axes) (string, error) {
	var b strings.Builder
	err := json.NewEncoder(readable.JSON(&b)).Encode(axes)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// canaryRow holds the columns of every canary, after those of ofCell. The columns of the canaries block are
// null for other canaries.
type canaryRow struct {
	// Of is the origin of the canary: "canaries" for the block, otherwise the audit.
	Of    string `parquet:"of" doc:"origin of the canary: canaries for the block of this name, else the audit that drew it"`
	Words string `parquet:"words" doc:"words of the canary"`

	Role               *string  `parquet:"role" doc:"role of the canary: inserted, never_inserted (drawn into no user's data) or control (held back)"`
	UserProbability    *float64 `parquet:"user_probability" doc:"p_u, the probability that a user has the canary"`
	ExampleProbability *float64 `parquet:"example_probability" doc:"p_e, the probability that the canary replaces an example of such a user"`
	Users              *int64   `parquet:"users" doc:"users who share the canary"`
	Holders            *int64   `parquet:"holders" doc:"users who hold copies of the canary after a shuffle"`
	Insertions         *int64   `parquet:"insertions" doc:"copies of the canary in the training data"`
	InsertedTimes      *int64   `parquet:"inserted_times" doc:"copies that the canary's configuration sets"`
	Format             *string  `parquet:"format" doc:"format of the canary, if there are several"`
}

// rankedRow is the number of references of a canary's rank. It is null without a rank.
type rankedRow struct {
	References *int64 `parquet:"references" doc:"random sequences among which the canary is ranked"`
}

func (v *viewCell) ranked(canaryOutcomes []audits.CanaryOutcome) (row rankedRow) {
	for place, d := range all.Audits() {
		if d.Among == nil {
			continue
		}
		for _, o := range canaryOutcomes {
			if n, ranked := d.Among(v.outcomes[place], o); ranked {
				row.References = new(int64(n))
			}
		}
	}
	return row
}

// canaryRows returns one row per canary.
func canaryRows(v *view) (*flatTable, error) {
	t := newFlatTable("canaries", v.canaryStructs(noCell(), canaryRow{}))
	for i := range v.cells {
		c := &v.cells[i]
		for _, canary := range c.decoded.Canaries {
			t.add(v.canaryStructs(c, newCanaryRow(&canary), canary.Outcomes...))
		}
		for d, outcome := range c.measured() {
			if d.Own == nil {
				continue
			}
			for _, canary := range d.Own(outcome) {
				t.add(v.canaryStructs(c, canaryRow{Of: d.Name, Words: strings.Join(canary.Words, " ")}, canary.CanaryOutcome))
			}
		}
	}
	return t, nil
}

func newCanaryRow(canary *audits.Canary) canaryRow {
	row := canaryRow{
		Of: "canaries", Words: strings.Join(canary.Words, " "), Role: new(string(canary.Role)),
		Users: new(int64(canary.Users)), Holders: new(int64(canary.Holders)), Insertions: new(int64(canary.Insertions)),
		Format: audits.When(canary.Format != "", canary.Format),
	}
	if canary.Role != audits.HeldBack {
		row.UserProbability, row.ExampleProbability, row.InsertedTimes = canary.Configuration().Columns()
	}
	return row
}

// canaryStructs returns the structs of a canary's row, with its outcomes in their places.
func (v *view) canaryStructs(c *viewCell, row canaryRow, canaryOutcomes ...audits.CanaryOutcome) []any {
	structs := []any{v.ofCell(c), row}
	for _, columns := range ofAudits().ordered {
		var found any
		for _, o := range canaryOutcomes {
			if ofCanaryOutcome(o) == columns {
				found = o
			}
		}
		structs = append(structs, columns.rowOf(found))
	}
	if len(v.rows) > 0 {
		structs = append(structs, replicateOf(c))
	}
	return append(structs, c.ranked(canaryOutcomes), c.baseline())
}
