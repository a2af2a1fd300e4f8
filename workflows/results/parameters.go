package results

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"coalmine/workflows/experiment"
)

// commonParameters are fields of the experiment file with a column in the cells of every run, so
// that scripts can rely on them.
var commonParameters = []string{
	"data.partition", "data.vocabulary.size", "data.users.words", "data.users.examples",
	"model.kind", "model.embedding", "model.units",
	"training.algorithm", "training.rounds", "training.epochs", "training.cohort",
	"training.client.optimizer", "training.client.learning_rate", "training.client.batch", "training.client.epochs",
	"training.server.optimizer", "training.server.learning_rate",
	"training.privacy.clip", "training.privacy.noise_multiplier", "training.privacy.delta",
}

// addParameters sets the fields that identify every cell: common ones, and those below the axes of
// the grid. It omits fields that a cell lacks.
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

// chosen returns the fields with these paths, in their order.
func chosen(fields experiment.Axes, paths []string) experiment.Axes {
	out := experiment.Axes{}
	for _, path := range paths {
		if i := slices.IndexFunc(fields, func(a experiment.Axis) bool { return a.Path == path && string(a.Value) != "null" }); i >= 0 {
			out = append(out, fields[i])
		}
	}
	return out
}

// parameterColumns holds the cells' parameters as columns named by path: numbers if the field is a
// number in every cell that has it, otherwise text. The seed of replicates has its own column.
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

// of returns the row of one cell; absent fields are null.
func (c *parameterColumns) of(cell *Cell) any {
	row := reflect.New(c.row).Elem()
	for i, path := range c.paths {
		for _, p := range chosen(cell.Parameters, []string{path}) {
			row.Field(i).Set(reflect.ValueOf(c.value(i, p)))
		}
	}
	return row.Interface()
}

// value returns a *float64, or a *string with text without quotes, or JSON.
func (c *parameterColumns) value(i int, p experiment.Axis) any {
	var number float64
	if c.numbers[i] && json.Unmarshal(p.Value, &number) == nil {
		return &number
	}
	text := p.Text()
	return &text
}
