package audits

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models/ranking"
)

// Measure is a number, a text or a bool of an outcome or of a canary's outcome. One declaration gives the
// columns of CSV and Parquet, cells of tables, means over replicates, curves, and the comparison of canaries.
type Measure struct {
	// Name is the column of CSV and Parquet, and never changes. Empty: no column.
	Name string
	// Doc describes the value, with its unit or range if they are not clear: a phrase in lower case, without a full stop.
	Doc string
	// Of finds the value. An interval has the columns Name, Name_low and Name_high.
	Of Value

	// Header is the header of its column of tables, and sets its width. Empty: no column.
	Header string
	// Text is its cell of tables. The default is the value, printed in its scale.
	Text Value
	// Leading columns of tables stand before the others.
	Leading bool
	// Optional columns of tables are left out if no outcome has a text.
	Optional bool
	// Place sorts the columns of tables, and the paired measures. Equal ones stay in the order of declaration.
	Place int

	// Scale is the scale of the printed number. Without one, rows of replicates list the texts.
	Scale Scale
	// Digits is the number of digits after the point.
	Digits int
	// Min and Max bound the number: intervals end there. If Max is 0, the scale sets it.
	Min, Max float64
	// Better is the direction of better numbers; empty if there is none. Rows of replicates are compared by measures
	// of utility, and among rows of equal utility the first other measure with a direction decides.
	Better Direction
	// Among names the measure of the possible count, if the number counts canaries, and Canary the paired
	// measure of their outcomes that it counts.
	Among, Canary string

	// Paired measures, numbers or bools, compare rows of replicates by canary.
	Paired bool
	// Curve is the curve along the training. It may be nil.
	Curve *Curve
	// Drawn names the number, with its unit, in figures that compare cells, or the mean over canaries in
	// figures of replicates: "mean exposure of canaries, bits". Empty: not drawn. Level is the printed number
	// by chance, a dashed line; 0: no line.
	Drawn string
	Level float64
}

// Interval is a number with the ends of an interval around it. Without an interval both ends equal the number.
type Interval struct {
	Value float64 `json:"value" doc:"value"`
	Low   float64 `json:"low" doc:"lower end of the interval"`
	High  float64 `json:"high" doc:"upper end of the interval"`
}

// NewInterval returns a number between ends.
func NewInterval(value float64, ends ranking.Interval) Interval {
	return Interval{value, ends.Low, ends.High}
}

type Scale string

// Scales of measures.
const (
	Percent Scale = "percent" // a share in [0, 1], printed in percent
	Plain   Scale = "plain"
)

// Direction is the direction in which numbers are better.
type Direction string

const (
	Higher Direction = "higher"
	Lower  Direction = "lower"
)

// Than reports whether one number is better than another.
func (d Direction) Than(one, other numbers.Float) bool {
	return d == Higher && one > other || d == Lower && one < other
}

// Sentence returns Doc as a sentence; empty without Doc. The name of a column and a symbol, such as p_u, keep their case.
func (m *Measure) Sentence() string {
	if m.Doc == "" {
		return ""
	}
	first, _, _ := strings.Cut(m.Doc, " ")
	if len(first) == 1 || first == "ap" || first == "auc" || strings.ContainsAny(first, "_0123456789") {
		return m.Doc + "."
	}
	return strings.ToUpper(m.Doc[:1]) + m.Doc[1:] + "."
}

// Range returns the smallest and the largest value that the number can have.
func (m *Measure) Range() (least, most float64) {
	switch {
	case m.Max != 0:
		return m.Min, m.Max
	case m.Scale == Percent:
		return m.Min, 1
	}
	return m.Min, math.Inf(1)
}

// Of returns the printed number.
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

// Of returns the Value of a function that returns an integer, a float, a string, a bool, an Interval, or a
// pointer to one, nil for no value. Columns of strings without a pointer are never null.
func Of[V, T any](find func(*V) T) Value {
	t := reflect.TypeFor[T]()
	kind, ok := plainKind(indirect(t))
	if !ok {
		panic(fmt.Sprintf("audits: a measure of type %s; expected an integer, a float64, a string, a bool or an Interval", t))
	}
	return Value{kind, t.Kind() != reflect.String, func(v any) any { return plain(reflect.ValueOf(find(v.(*V)))) }}
}

// NonZero points to the value; nil for 0.
func NonZero[T comparable](v T) *T { return When(v != *new(T), v) }

// When points to the value if it applies, otherwise nil.
func When[T any](applies bool, v T) *T {
	if !applies {
		return nil
	}
	return &v
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// plainKind returns the type of columns for a type of values. It returns false if there is no such column
// type.
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
	return t, t == reflect.TypeFor[Interval]()
}

// plain converts to the plain kind; nil for a nil pointer.
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

// Within returns measures of a part of outcomes. They have no value if the part is nil.
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

// Members returns a measure for each member of an outcome's JSON that a column can hold, unless its tag has
// column:"-". Measures in given replace those with the same name; without Of they have the members' values. The
// tag doc of a member is the Doc of its measure.
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
		m.Doc = cmp.Or(m.Doc, t.Field(i).Tag.Get("doc"))
		if m.Of.of != nil {
			list = append(list, m)
		}
	}
	return list
}

// member returns the value of a field; zero if no column can hold it.
func member(f reflect.StructField) Value {
	kind, ok := plainKind(indirect(f.Type))
	if !ok || f.Tag.Get("column") == "-" {
		return Value{}
	}
	return Value{kind, true, func(v any) any { return plain(reflect.ValueOf(v).Elem().FieldByIndex(f.Index)) }}
}

// Columns returns measures without a column of tables, for members of an outcome's JSON: a member's column is its name
// after the prefix, and its tag doc their Doc. It panics if there is no such member of a column's type.
func Columns[O any](prefix string, names ...string) []Measure {
	fields := reflect.VisibleFields(reflect.TypeFor[O]())
	return lists.Map(names, func(name string) Measure {
		f := fields[slices.IndexFunc(fields, func(f reflect.StructField) bool {
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return member == name
		})]
		m := Measure{Name: prefix + name, Doc: f.Tag.Get("doc"), Of: member(f)}
		if m.Of.of == nil {
			panic(fmt.Sprintf("audits: no column has the type %s of %q", f.Type, name))
		}
		m.Of.optional = f.Type.Kind() != reflect.String
		return m
	})
}

// Qualified appends a qualifier, such as ", by the cosine", to the Doc of each measure.
func Qualified(of string, measures ...Measure) []Measure {
	for i := range measures {
		measures[i].Doc += of
	}
	return measures
}

// Decides reports whether the value is a bool.
func (m *Measure) Decides() bool { return m.Of.kind == reflect.TypeFor[bool]() }

// FieldColumn is a column of CSV and Parquet.
type FieldColumn struct {
	Name string
	// Doc is that of the measure, or names the end of its interval.
	Doc string
	// Type is int64, float64, string or bool.
	Type     reflect.Type
	Optional bool
	of       func(any) any
}

// Value returns the column's value of a model or a canary; nil for null.
func (c *FieldColumn) Value(of any) any { return c.of(of) }

// FieldColumns returns the columns of measures, in their order.
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
	case m.Of.kind != reflect.TypeFor[Interval]():
		return []FieldColumn{{m.Name, m.Doc, m.Of.kind, m.Of.optional, m.Of.of}}
	}
	end := func(suffix, doc string, of func(Interval) float64) FieldColumn {
		return FieldColumn{m.Name + suffix, doc, reflect.TypeFor[float64](), true, func(v any) any {
			if b, ok := m.Of.of(v).(Interval); ok {
				return of(b)
			}
			return nil
		}}
	}
	return []FieldColumn{
		end("", m.Doc, func(b Interval) float64 { return b.Value }),
		end("_low", "lower end of the interval of "+m.Name, func(b Interval) float64 { return b.Low }),
		end("_high", "upper end of the interval of "+m.Name, func(b Interval) float64 { return b.High }),
	}
}

// TableMeasures returns the measures with a column of tables, in this order.
func (d *Description) TableMeasures() (list []*Measure) {
	for i := range d.Measures {
		if m := &d.Measures[i]; m.Header != "" {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b *Measure) int { return a.Place - b.Place })
	return list
}

// Cell returns the text of an outcome in a column. Without text it is "-", or empty in leading and optional
// columns.
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

// among returns the measure named by Among, or m.
func (d *Description) among(m *Measure) *Measure {
	if m.Among == "" {
		return m
	}
	return &d.Measures[slices.IndexFunc(d.Measures, func(other Measure) bool { return other.Name == m.Among })]
}

// number returns the value, 0 if missing.
func (m *Measure) number(v Outcome) float64 {
	switch x := m.Of.of(v).(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	return 0
}

// Interval returns the printed number with its ends, or false if there is no number.
func (m *Measure) Interval(v Outcome) (Interval, bool) {
	switch x := m.Of.of(v).(type) {
	case float64:
		return Interval{m.Scale.Of(x), m.Scale.Of(x), m.Scale.Of(x)}, true
	case Interval:
		return Interval{m.Scale.Of(x.Value), m.Scale.Of(x.Low), m.Scale.Of(x.High)}, true
	}
	return Interval{}, false
}

// printed formats a value for people; empty without a value.
func (m *Measure) printed(value any) string {
	switch x := value.(type) {
	case float64:
		return numbers.Decimal(m.Scale.Of(x), m.Digits)
	case Interval:
		return numbers.Decimal(m.Scale.Of(x.Value), m.Digits)
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
