package audits

import (
	"fmt"
	"reflect"
	"strings"
)

// LimitOf is a field of audit.fail_if, whose value is an L: a number of an outcome that a finished
// cell must not be beyond.
type LimitOf[L any] struct {
	// Name is that of the field, Doc its sentences on the reference page, and Range, Unit and
	// Source what the tags of other fields say.
	Name, Doc, Range, Unit, Source string
	// Breaches names what is beyond the limit in a finished cell, one sentence each. What was
	// not measured is beyond none. See Judged.
	Breaches func(c *Cell, limit L) []string
	// Unjudged names the numbers that could not be judged and are no breach, one clause each;
	// nil where all are.
	Unjudged func(c *Cell, limit L) []string
	// Check reports a limit that cannot fail; nil where each can. That the audit is asked for
	// is checked for all.
	Check func(s *Setting, limit L, fail Fail)
	// FalseAlarms say how likely a cell fails by chance alone; nil where none does.
	FalseAlarms func(s *Setting, limit L) []FalseAlarm
}

// Limit is a LimitOf any type of value. Its functions take the pointer that the experiment has.
type Limit struct {
	Name string

	field       reflect.StructField
	Breaches    func(c *Cell, limit any) []string
	Unjudged    func(c *Cell, limit any) []string
	Check       func(s *Setting, limit any, fail Fail)
	FalseAlarms func(s *Setting, limit any) []FalseAlarm
}

// Limit returns the limit as Description.Limits has it.
func (l LimitOf[L]) Limit() Limit {
	tag := fmt.Sprintf(`json:"%s,omitempty" range:%q unit:%q source:%q doc:%q`, l.Name, l.Range, l.Unit, l.Source, l.Doc)
	return Limit{
		Name:     l.Name,
		field:    reflect.StructField{Name: exported(l.Name), Type: reflect.TypeFor[*L](), Tag: reflect.StructTag(tag)},
		Breaches: func(c *Cell, limit any) []string { return l.Breaches(c, *limit.(*L)) },
		Unjudged: func(c *Cell, limit any) []string {
			if l.Unjudged == nil {
				return nil
			}
			return l.Unjudged(c, *limit.(*L))
		},
		Check: func(s *Setting, limit any, fail Fail) {
			if l.Check != nil {
				l.Check(s, *limit.(*L), fail)
			}
		},
		FalseAlarms: func(s *Setting, limit any) []FalseAlarm {
			if l.FalseAlarms == nil {
				return nil
			}
			return l.FalseAlarms(s, *limit.(*L))
		},
	}
}

// exported is the Go name of a field: "BeamSearchMemorized" of beam_search_memorized.
func exported(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// NewLimits returns a pointer to a struct with a pointer for each limit, in order, all nil: the
// fields that the audit adds to audit.fail_if. It is nil without limits.
func (d *Description) NewLimits() any {
	var fields []reflect.StructField
	for i := range d.Limits {
		fields = append(fields, d.Limits[i].field)
	}
	if fields == nil {
		return nil
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// GivenLimit is a limit that an experiment has, and its value.
type GivenLimit struct {
	*Limit
	Value any
}

// Given returns the limits that a struct of NewLimits has.
func (d *Description) Given(limits any) (given []GivenLimit) {
	if limits == nil {
		return nil
	}
	fields := reflect.ValueOf(limits).Elem()
	for i := range d.Limits {
		if value := fields.Field(i); !value.IsNil() {
			given = append(given, GivenLimit{&d.Limits[i], value.Interface()})
		}
	}
	return given
}

// Judged returns the Breaches, or the Unjudged, that a function finds in the outcome of a cell;
// none of a cell without one.
func Judged[V, L any](find func(v V, limit L) []string) func(*Cell, L) []string {
	return func(c *Cell, limit L) []string {
		if v, ok := OutcomeOf[V](c); ok {
			return find(v, limit)
		}
		return nil
	}
}

// CountLimit is a limit on the canaries that an audit counts, which a measure of its outcomes
// names. counted finds the number; byChance bounds the probability that an audit counts more than
// k of n canaries that no model has memorized.
func CountLimit[V any](name, doc string, counted func(V) int, byChance func(s *Setting, k, n int) float64) Limit {
	return LimitOf[int]{
		Name: name, Doc: name + " " + doc, Range: "[0,1000000000]", Unit: "canaries",
		Breaches: Judged(func(v V, limit int) []string { return Above(name, counted(v), limit) }),
		Check:    func(s *Setting, limit int, fail Fail) { checkCount(s, name, limit, fail) },
		FalseAlarms: func(s *Setting, limit int) []FalseAlarm {
			return CanaryAlarms(s, name, float64(limit), func(n int) float64 { return byChance(s, limit, n) })
		},
	}.Limit()
}

// PairLimit is a limit on how many times PairChance the average precision of pairs is, judged by
// the lower end of its interval over users. find returns the number with words for it, and the
// users that it is of; without words it was not measured. It is one of so many numbers.
func PairLimit[V any](name string, numbers int, unit, doc string, find func(V) (what string, users int, found Bounded)) Limit {
	return LimitOf[float64]{
		Name: name, Doc: doc, Range: "[1,2)", Unit: "times chance",
		Breaches: Judged(func(v V, limit float64) []string {
			what, users, found := find(v)
			if what == "" {
				return nil
			}
			g := Gate{Limit: limit}
			g.Factor(what, users, found, PairChance)
			return g.Breaches()
		}),
		FalseAlarms: func(s *Setting, limit float64) []FalseAlarm {
			return FactorAlarms(name, limit, numbers, unit, s.Owners(), PairChance)
		},
	}.Limit()
}

// LikeliestByChance is the byChance of CountLimit for an audit that names the most likely
// sequence after a prefix. An unmemorized canary is any of the sequences that may follow its
// prefix: of several formats the smallest bounds the probability.
func LikeliestByChance[F Fields](prefix func(F) int) func(s *Setting, k, n int) float64 {
	return func(s *Setting, k, n int) float64 {
		f, ok := FieldsOf[F](s)
		if !ok {
			return 0
		}
		return MoreThan(k, n, 1/s.Canaries.FewestSequences(s.Ordinary, prefix(f)))
	}
}
