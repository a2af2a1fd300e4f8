package results

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// measuredColumns describes the columns of measures in CSV and Parquet.
type measuredColumns struct {
	list []audits.FieldColumn
	row  reflect.Type // a struct with a field for each, by its parquet tag
}

func newMeasuredColumns(measures []audits.Measure) *measuredColumns {
	c := &measuredColumns{list: audits.FieldColumns(measures)}
	var fields []reflect.StructField
	for i, column := range c.list {
		kind := column.Type
		if column.Optional {
			kind = reflect.PointerTo(kind)
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: kind, Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", column.Name))})
	}
	c.row = reflect.StructOf(fields)
	return c
}

// rowOf returns the struct for the outcome of a model or of a canary; all fields are null for nil.
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

// number returns the number in a column, 1 for true and 0 for false. It returns false if the number
// is null or NaN, or the column does not exist. The number may be infinite.
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

// auditColumns holds the columns of all audits.
type auditColumns struct {
	// outcomes holds the columns of the outcomes, in the order of the audits.
	outcomes []*measuredColumns
	// canaryOutcomes holds the columns of the outcomes of canaries by type; ordered holds the same
	// in the order of the audits.
	canaryOutcomes map[reflect.Type]*measuredColumns
	ordered        []*measuredColumns
}

// ofAudits returns the columns of all audits.
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
