package results

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// measuredColumns describes the columns of measures in CSV and Parquet.
type measuredColumns struct {
	list []audits.FieldColumn
	row  reflect.Type // a struct with a field for each column, by its parquet tag
}

func newMeasuredColumns(measures []audits.Measure) *measuredColumns {
	c := &measuredColumns{list: audits.FieldColumns(measures)}
	var fields []reflect.StructField
	for i, column := range c.list {
		kind := column.Type
		if column.Optional {
			kind = reflect.PointerTo(kind)
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: kind, Tag: reflect.StructTag(fmt.Sprintf("parquet:%q doc:%q", column.Name, column.Doc))})
	}
	c.row = reflect.StructOf(fields)
	return c
}

// rowOf returns the struct for the outcome of a model or of a canary. All fields are null if found is nil.
func (c *measuredColumns) rowOf(found any) any {
	row := reflect.New(c.row).Elem()
	for i := range c.list {
		if found == nil {
			break
		}
		switch value := reflect.ValueOf(c.list[i].Value(found)); {
		case !value.IsValid():
		case c.list[i].Optional:
			pointer := reflect.New(c.list[i].Type)
			pointer.Elem().Set(value)
			row.Field(i).Set(pointer)
		default:
			row.Field(i).Set(value)
		}
	}
	return row.Interface()
}

// number returns the number in a column, with 1 for true and 0 for false. It returns false if the number is
// null or NaN, or the column does not exist. The number may be infinite.
func (c *measuredColumns) number(found any, name string) (number float64, ok bool) {
	at := slices.IndexFunc(c.list, func(column audits.FieldColumn) bool { return column.Name == name })
	if at < 0 || found == nil {
		return 0, false
	}
	switch x := c.list[at].Value(found).(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x)
	case bool:
		if x {
			number = 1
		}
		return number, true
	default:
		return 0, false
	}
}

type auditColumns struct {
	// outcomes holds the columns of the outcomes, in the order of the audits.
	outcomes []*measuredColumns
	// canaryOutcomes holds the columns of the outcomes of canaries by type; ordered holds the same columns
	// in the order of the audits.
	canaryOutcomes map[reflect.Type]*measuredColumns
	ordered        []*measuredColumns
}

var ofAudits = sync.OnceValue(func() *auditColumns {
	c := &auditColumns{canaryOutcomes: map[reflect.Type]*measuredColumns{}}
	for _, d := range all.Audits() {
		c.outcomes = append(c.outcomes, newMeasuredColumns(d.Measures))
		if d.CanaryOutcome != nil {
			columns := newMeasuredColumns(d.Canary)
			c.canaryOutcomes[reflect.TypeOf(d.CanaryOutcome())] = columns
			c.ordered = append(c.ordered, columns)
		}
	}
	return c
})

// ofCanaryOutcome returns the columns of an outcome's type.
func ofCanaryOutcome(o audits.CanaryOutcome) *measuredColumns {
	return ofAudits().canaryOutcomes[reflect.TypeOf(o)]
}

// Value is a row's value in one of its columns: a number, 1 and 0 for true and false, or a text.
type Value struct {
	Column string
	Number float64
	// Text is the value in a column of texts, or "".
	Text string
}

// CellValues returns the rows that WriteRows writes for Cells, without parameters and without null or empty
// columns. Cells in training have no values of audits.
func (r *Results) CellValues() ([][]Value, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	for i := range v.cells {
		v.cells[i].soFar = nil
	}
	t, err := newCellRows(v, newParameterColumns(nil, nil))
	if err != nil {
		return nil, err
	}
	return t.values(), nil
}

// Values returns the rows of the rounds, in their order, as Rounds.Write does but without the cell's
// columns. It omits null columns, and speeds, so that equal trainings have equal values.
func (c *CellRounds) Values() [][]Value {
	t := newFlatTable("round", []any{Round{}})
	t.mayLackThoseOf([]CellRounds{*c})
	var metrics []map[string]float64
	for _, round := range c.Rounds {
		round.TokensPerSecond = 0
		t.add([]any{round})
		t.lackThoseOf(&round)
		metrics = append(metrics, round.Metrics)
	}
	t.withMetrics(metrics)
	return t.values()
}

func (t *flatTable) values() [][]Value {
	t = t.finite()
	names := t.header()
	all := make([][]Value, len(t.rows))
	for i, row := range t.rows {
		for j, v := range row {
			if value, there := valueOf(names[j], v); there {
				all[i] = append(all[i], value)
			}
		}
	}
	return all
}

func valueOf(column string, v parquet.Value) (_ Value, there bool) {
	if v.IsNull() {
		return Value{}, false
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return Value{Column: column, Number: 1}, true
		}
		return Value{Column: column}, true
	case parquet.Int32, parquet.Int64:
		return Value{Column: column, Number: float64(v.Int64())}, true
	case parquet.Float, parquet.Double:
		return Value{Column: column, Number: v.Double()}, true
	default:
		return Value{Column: column, Text: v.String()}, v.String() != ""
	}
}

// commonParameters are the fields of the experiment file that have a column in the cells of every run, so
// that scripts can rely on them.
var commonParameters = []string{
	"data.partition", "data.vocabulary.size", "data.users.words", "data.users.examples",
	"model.kind", "model.embedding", "model.units",
	"training.algorithm", "training.rounds", "training.epochs", "training.cohort",
	"training.client.optimizer", "training.client.learning_rate", "training.client.batch", "training.client.epochs",
	"training.server.optimizer", "training.server.learning_rate",
	"training.privacy.clip", "training.privacy.noise_multiplier", "training.privacy.delta",
}

// addParameters sets the fields that identify every cell: common ones, and those below the axes of the
// grid. It omits fields that a cell lacks.
func (r *Results) addParameters(spec *experiment.Spec) {
	paths := slices.Clone(commonParameters)
	for i := range spec.Cells {
		for _, axis := range spec.Cells[i].Axes {
			for _, leaf := range experiment.Leaves(axis.Path, axis.Value) {
				if !slices.Contains(paths, leaf.Path) && leaf.Path != "label" { // label has its own column
					paths = append(paths, leaf.Path)
				}
			}
		}
	}
	for i := range r.Cells {
		fields := experiment.Leaves("", spec.Cells[i].Experiment.Canonical())
		r.Cells[i].Parameters = chosen(fields, paths)
	}
}

// chosen returns the fields with these paths, in the order of the paths.
func chosen(fields experiment.Axes, paths []string) experiment.Axes {
	out := experiment.Axes{}
	for _, path := range paths {
		if i := slices.IndexFunc(fields, func(a experiment.Axis) bool { return a.Path == path && string(a.Value) != "null" }); i >= 0 {
			out = append(out, fields[i])
		}
	}
	return out
}

// parameterColumns holds the cells' parameters as columns named by path. A column has numbers if the field
// is a number in every cell that has it, and texts otherwise. The seed of replicates has its own column.
type parameterColumns struct {
	paths   []string
	numbers []bool
	row     reflect.Type
}

func (v *view) parameterColumns() *parameterColumns {
	paths := slices.Clone(commonParameters)
	for i := range v.cells {
		for _, p := range v.cells[i].Parameters {
			if !slices.Contains(paths, p.Path) && (p.Path != "seed" || len(v.rows) == 0) {
				paths = append(paths, p.Path)
			}
		}
	}
	return newParameterColumns(paths, v.isNumber)
}

func newParameterColumns(paths []string, isNumber func(path string) bool) *parameterColumns {
	c := &parameterColumns{paths: paths}
	var fields []reflect.StructField
	for i, path := range paths {
		c.numbers = append(c.numbers, isNumber(path))
		kind := reflect.TypeFor[*string]()
		if c.numbers[i] {
			kind = reflect.TypeFor[*float64]()
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("P%d", i), Type: kind, Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", path))})
	}
	c.row = reflect.StructOf(fields)
	return c
}

func (v *view) isNumber(path string) bool {
	found := false
	for i := range v.cells {
		for _, p := range chosen(v.cells[i].Parameters, []string{path}) {
			var number float64
			if json.Unmarshal(p.Value, &number) != nil {
				return false
			}
			found = true
		}
	}
	return found
}

// of returns the row of one cell. Absent fields are null.
func (c *parameterColumns) of(cell *Cell) any {
	row := reflect.New(c.row).Elem()
	for i, path := range c.paths {
		for _, p := range chosen(cell.Parameters, []string{path}) {
			row.Field(i).Set(reflect.ValueOf(c.value(i, p)))
		}
	}
	return row.Interface()
}

// value returns a *float64, or a *string that holds a text without quotes or JSON.
func (c *parameterColumns) value(i int, p experiment.Axis) any {
	var number float64
	if c.numbers[i] && json.Unmarshal(p.Value, &number) == nil {
		return &number
	}
	text := p.Text()
	return &text
}
