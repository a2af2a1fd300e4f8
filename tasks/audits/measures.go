package audits

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"coalmine/internal/extended"
)

// Measure is a number, a text, or a yes or no of a verdict, or of a canary's outcome. It is
// declared once: columns of CSV and Parquet, cells of tables, means over replicates and the
// comparison of canaries follow from it.
type Measure struct {
	// Name is its column of CSV and Parquet, and never changes. A measure without one stands
	// in tables alone.
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
	// Optional columns of tables are left out where no verdict has a text.
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

// Value finds a value in verdicts, or outcomes, of one type.
type Value struct {
	kind     reflect.Type
	optional bool
	of       func(any) any
}

// Of returns the Value that a function finds: an integer, a float, a string, a bool, a Bounded,
// or a pointer to one of these, nil where there is none. Columns of strings without a pointer
// are never null.
func Of[V, T any](find func(*V) T) Value {
	kind := reflect.TypeFor[T]()
	optional := kind.Kind() != reflect.String
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return Value{plainKind(kind), optional, func(v any) any { return plain(reflect.ValueOf(find(v.(*V)))) }}
}

// plainKind is the type that columns have for a type of values.
func plainKind(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return reflect.TypeFor[int64]()
	case reflect.Float64:
		return reflect.TypeFor[float64]()
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	}
	if t == reflect.TypeFor[Bounded]() {
		return t
	}
	panic(fmt.Sprintf("audits: a measure of type %s; expected an integer, a float64, a string, a bool or a Bounded", t))
}

// plain is a value of its plain kind, nil for a nil pointer.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	return v.Convert(plainKind(v.Type())).Interface()
}

// Within returns measures of a part of verdicts. They are absent where the part is nil.
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

// FieldColumn is a column of CSV and Parquet.
type FieldColumn struct {
	Name string
	// Type is int64, float64, string or bool.
	Type reflect.Type
	// Optional columns may be null.
	Optional bool
	of       func(any) any
}

// Value is what the column has of a verdict or an outcome; nil for null.
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

// Cell is the text of a verdict in the column of a measure. Where there is none it is "-", and
// empty in leading and optional columns.
func (d *Description) Cell(m *Measure, v Verdict) string {
	text, leaves := d.text(m, v), m.Leading || m.Optional
	if text == "" && !leaves {
		return "-"
	}
	return text
}

func (d *Description) text(m *Measure, v Verdict) string {
	if m.Text.of != nil {
		text, _ := m.Text.of(v).(string)
		return text
	}
	text := m.printed(m.Of.of(v))
	if m.Among != "" && text != "" {
		among := &d.Measures[slices.IndexFunc(d.Measures, func(other Measure) bool { return other.Name == m.Among })]
		text += "/" + among.printed(among.Of.of(v))
	}
	return text
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

// OldValue is a Value of a description without measures.
func OldValue(kind reflect.Type, optional bool, of func(any) any) Value {
	return Value{kind, optional, of}
}
