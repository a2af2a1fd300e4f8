package audits

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/extended"
)

// Measure is a number, a text, or a yes or no of an outcome, or of a canary's outcome. It is
// declared once: columns of CSV and Parquet, cells of tables, means over replicates, curves and
// the comparison of canaries follow from it.
type Measure struct {
	// Name is its column of CSV and Parquet, and never changes. A measure without one has none.
	Name string
	// Of finds its value. A value that is an interval has the columns Name, Name_low and
	// Name_high.
	Of Value

	// Header heads its column of tables, which is as wide as it; a measure without one has none.
	Header string
	// Text is its cell in tables; the zero Value: the value, printed in its scale.
	Text Value
	// Leading columns of tables stand before the others.
	Leading bool
	// Optional columns of tables are left out where no outcome has a text.
	Optional bool
	// Place sorts the columns of an audit's tables, and the paired measures of outcomes; those of
	// one place stand as they are declared.
	Place int

	// Scale says how the number is printed. Without one, rows of replicates list the texts, and
	// have no mean.
	Scale Scale
	// Digits behind the point of its texts.
	Digits int
	// Among names the measure of how many could be counted, where the number counts canaries,
	// and Canary the paired measure of their outcomes that says which it counts.
	Among, Canary string

	// Paired measures of outcomes, numbers or yes and no, compare rows of replicates canary by
	// canary.
	Paired bool
	// Curve draws it along the training; nil: it is not drawn.
	Curve *Curve
	// Drawn names the mean over canaries, with its unit, for the figures that compare rows of
	// replicates: "mean exposure of canaries, bits". Without one it is not drawn.
	Drawn string
}

// Scale is how a number is printed.
type Scale string

// Scales of measures.
const (
	Percent Scale = "percent" // a share in [0, 1], printed in percent
	Plain   Scale = "plain"
)

// Of returns a number as it is printed.
func (s Scale) Of(x float64) float64 {
	if s == Percent {
		return 100 * x
	}
	return x
}

// Value finds a value in outcomes of one type.
type Value struct {
	kind     reflect.Type
	optional bool
	of       func(any) any
}

// Of returns the Value that a function finds: an integer, a float, a string, a bool, a Bounded,
// or a pointer to one of these, nil where there is none. Columns of strings without a pointer
// are never null.
func Of[V, T any](find func(*V) T) Value {
	t := reflect.TypeFor[T]()
	kind, ok := plainKind(indirect(t))
	if !ok {
		panic(fmt.Sprintf("audits: a measure of type %s; expected an integer, a float64, a string, a bool or a Bounded", t))
	}
	return Value{kind, t.Kind() != reflect.String, func(v any) any { return plain(reflect.ValueOf(find(v.(*V)))) }}
}

// indirect is the type that a pointer points to, or the type itself.
func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// plainKind is the type that columns have for a type of values; false if none has.
func plainKind(t reflect.Type) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return reflect.TypeFor[int64](), true
	case reflect.Float64:
		return reflect.TypeFor[float64](), true
	case reflect.String:
		return reflect.TypeFor[string](), true
	case reflect.Bool:
		return reflect.TypeFor[bool](), true
	}
	return t, t == reflect.TypeFor[Bounded]()
}

// plain is a value of its plain kind, nil for a nil pointer.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	kind, _ := plainKind(v.Type())
	return v.Convert(kind).Interface()
}

// Within returns measures of a part of outcomes. They are absent where the part is nil.
func Within[V, P any](part func(*V) *P, measures ...Measure) []Measure {
	within := func(v Value) Value {
		of := v.of
		if of == nil {
			return v
		}
		v.of = func(whole any) any {
			if p := part(whole.(*V)); p != nil {
				return of(p)
			}
			return nil
		}
		return v
	}
	for i := range measures {
		measures[i].Of, measures[i].Text = within(measures[i].Of), within(measures[i].Text)
	}
	return measures
}

// Members returns the measures of an outcome that are members of its JSON, by their names and in
// their order: numbers, texts, and yes or no, unless the tag of a field is column:"-". Given
// measures stand in place of the members of their names; without Of they have the members' values.
func Members[O any](given ...Measure) (list []Measure) {
	t := reflect.TypeFor[O]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		m := Measure{Name: name}
		if at := slices.IndexFunc(given, func(g Measure) bool { return g.Name == name }); at >= 0 {
			m = given[at]
		}
		if m.Of.of == nil {
			m.Of = member(t.Field(i))
		}
		if m.Of.of != nil {
			list = append(list, m)
		}
	}
	return list
}

// member is the value of a field, the zero Value of one that no column holds.
func member(f reflect.StructField) Value {
	kind, ok := plainKind(indirect(f.Type))
	if !ok || f.Tag.Get("column") == "-" {
		return Value{}
	}
	return Value{kind, true, func(v any) any { return plain(reflect.ValueOf(v).Elem().FieldByIndex(f.Index)) }}
}

// FieldColumn is a column of CSV and Parquet.
type FieldColumn struct {
	Name string
	// Type is int64, float64, string or bool.
	Type reflect.Type
	// Optional columns may be null.
	Optional bool
	of       func(any) any
}

// Value is what the column has of a model or of a canary; nil for null.
func (c *FieldColumn) Value(of any) any { return c.of(of) }

// FieldColumns are those of measures, in order.
func FieldColumns(measures []Measure) (columns []FieldColumn) {
	for i := range measures {
		columns = append(columns, measures[i].columns()...)
	}
	return columns
}

func (m *Measure) columns() []FieldColumn {
	switch {
	case m.Name == "":
		return nil
	case m.Of.kind != reflect.TypeFor[Bounded]():
		return []FieldColumn{{m.Name, m.Of.kind, m.Of.optional, m.Of.of}}
	}
	end := func(suffix string, of func(Bounded) float64) FieldColumn {
		return FieldColumn{m.Name + suffix, reflect.TypeFor[float64](), true, func(v any) any {
			if b, ok := m.Of.of(v).(Bounded); ok {
				return of(b)
			}
			return nil
		}}
	}
	return []FieldColumn{
		end("", func(b Bounded) float64 { return b.Value }),
		end("_low", func(b Bounded) float64 { return b.Low }),
		end("_high", func(b Bounded) float64 { return b.High }),
	}
}

// TableMeasures are those that have a column of tables, in their order.
func (d *Description) TableMeasures() (list []*Measure) {
	for i := range d.Measures {
		if m := &d.Measures[i]; m.Header != "" {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b *Measure) int { return a.Place - b.Place })
	return list
}

// Cell is the text of an outcome in the column of a measure. Where there is none it is "-", and
// empty in leading and optional columns.
func (d *Description) Cell(m *Measure, v Outcome) string {
	text, leaves := d.text(m, v), m.Leading || m.Optional
	if text == "" && !leaves {
		return "-"
	}
	return text
}

func (d *Description) text(m *Measure, v Outcome) string {
	if m.Text.of != nil {
		text, _ := m.Text.of(v).(string)
		return text
	}
	text := m.printed(m.Of.of(v))
	if among := d.among(m); among != m && text != "" {
		text += "/" + among.printed(among.Of.of(v))
	}
	return text
}

// among returns the measure that the field Among names, or without one the measure itself.
func (d *Description) among(m *Measure) *Measure {
	if m.Among == "" {
		return m
	}
	return &d.Measures[slices.IndexFunc(d.Measures, func(other Measure) bool { return other.Name == m.Among })]
}

// number returns the value of an outcome as a number, 0 if it has none.
func (m *Measure) number(v Outcome) float64 {
	switch x := m.Of.of(v).(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	return 0
}

// printed is a value for people, empty for none.
func (m *Measure) printed(value any) string {
	switch x := value.(type) {
	case float64:
		return extended.Decimal(m.Scale.Of(x), m.Digits)
	case Bounded:
		return extended.Decimal(m.Scale.Of(x.Value), m.Digits)
	case int64:
		return strconv.FormatInt(x, 10)
	case string:
		return x
	case bool:
		if x {
			return "yes"
		}
		return "no"
	}
	return ""
}
