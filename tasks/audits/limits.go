package audits

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
)

// LimitOf is a field of audit.fail_if of type L: a limit on a number in a finished cell's outcome.
type LimitOf[L any] struct {
	// Name is the name of the field, Doc its text on the reference page. Range, Unit and Source are as in the
	// tags of other fields.
	Name, Doc, Range, Unit, Source string
	// Breaches returns a sentence for each number beyond the limit in a finished cell. A missing number is a
	// breach, by NoValue, unless Unjudged names it. See Judged.
	Breaches func(c *Cell, limit L) []string
	// Unjudged returns a clause for each number that could not be judged; nil if all can.
	Unjudged func(c *Cell, limit L) []string
	// Check reports a limit that cannot fail; nil if each can. All limits require their audit.
	Check func(s *Setting, limit L, fail Fail)
	// FalseAlarms returns the false alarms of a cell by pure chance. It may be nil.
	FalseAlarms func(s *Setting, limit L) []FalseAlarm
}

// Limit is a LimitOf any type. Its functions take the experiment's pointer.
type Limit struct {
	Name string

	field       reflect.StructField
	Breaches    func(c *Cell, limit any) []string
	Unjudged    func(c *Cell, limit any) []string
	Check       func(s *Setting, limit any, fail Fail)
	FalseAlarms func(s *Setting, limit any) []FalseAlarm
}

// Limit returns the limit for Description.Limits.
func (l LimitOf[L]) Limit() Limit {
	tag := fmt.Sprintf(`json:"%s,omitempty" range:%q unit:%q source:%q doc:%q`, l.Name, l.Range, l.Unit, l.Source, l.Doc)
	return Limit{
		Name:     l.Name,
		field:    reflect.StructField{Name: exported(l.Name), Type: reflect.TypeFor[*L](), Tag: reflect.StructTag(tag)},
		Breaches: untyped(l.Breaches), Unjudged: untyped(l.Unjudged), FalseAlarms: untyped(l.FalseAlarms),
		Check: func(s *Setting, limit any, fail Fail) {
			if l.Check != nil {
				l.Check(s, *limit.(*L), fail)
			}
		},
	}
}

func untyped[Of, L, R any](f func(*Of, L) []R) func(*Of, any) []R {
	return func(of *Of, limit any) []R {
		if f == nil {
			return nil
		}
		return f(of, *limit.(*L))
	}
}

// exported returns the Go name of a field: "BeamSearchMemorized" for beam_search_memorized.
func exported(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// NewLimits returns a pointer to a struct of nil pointers, one for each limit: the audit's fields of
// audit.fail_if. It is nil without limits.
func (d *Description) NewLimits() any {
	if len(d.Limits) == 0 {
		return nil
	}
	return reflect.New(reflect.StructOf(lists.Map(d.Limits, func(l Limit) reflect.StructField { return l.field }))).Interface()
}

type GivenLimit struct {
	*Limit
	Value any
}

// Number returns the limit as a number; nil if it is not a number.
func (g *GivenLimit) Number() *float64 {
	switch v := reflect.ValueOf(g.Value).Elem(); v.Kind() {
	case reflect.Int:
		return new(float64(v.Int()))
	case reflect.Float64:
		return new(v.Float())
	default:
		return nil
	}
}

// GivenLimits returns the limits of an experiment, in a struct of NewLimits.
func (d *Description) GivenLimits(limits any) (given []GivenLimit) {
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

// NoValue returns the breach of a limit on a number that a finished cell does not have.
func NoValue(number, why string) []string {
	return []string{fmt.Sprintf("%s has no value, because %s; so nothing shows that it is within the limit", number, why)}
}

// Judged returns Breaches with the results of find on the outcome of a cell. A cell without the outcome has
// no value of the number.
func Judged[V, L any](number string, find func(v V, limit L) []string) func(*Cell, L) []string {
	return func(c *Cell, limit L) []string {
		if v, ok := OutcomeOf[V](c); ok {
			return find(v, limit)
		}
		return NoValue(number, "the cell has no outcome of its audit")
	}
}

// NotJudged returns Unjudged with the results of find on the outcome of a cell, if it has one.
func NotJudged[V, L any](find func(v V, limit L) []string) func(*Cell, L) []string {
	return func(c *Cell, limit L) []string {
		if v, ok := OutcomeOf[V](c); ok {
			return find(v, limit)
		}
		return nil
	}
}

// Gate is a limit on lower ends of intervals over users. A number is not judged if its users are too few for
// a lower bound above the limit and the upper bound is above it. A cell without a judged number does not
// pass.
type Gate struct {
	Name  string // field of audit.fail_if
	Limit float64

	breaches, tooFew []string
	judged           bool
}

// Factor judges a number in [0, 1] divided by chance, if chance is above 0.
func (g *Gate) Factor(name string, users int, found Interval, chance float64) {
	if chance > 0 {
		g.judge(fmt.Sprintf("%s is %.4g times chance", name, found.Value/chance), users, found, chance)
	}
}

// Number judges a number in [0, 1].
func (g *Gate) Number(name string, users int, found Interval) {
	g.judge(fmt.Sprintf("%s is %.4g", name, found.Value), users, found, 1)
}

// judge compares a lower end, in units, with the limit.
func (g *Gate) judge(name string, users int, found Interval, unit float64) {
	if few := TooFew(name, users, found.High/unit, g.Limit, unit); few != "" {
		g.tooFew = append(g.tooFew, few)
		return
	}
	g.judged = true
	g.breaches = append(g.breaches, AboveLimit(name+"; at least it", found.Low/unit, g.Limit)...)
}

// TooFew explains why a limit, in units, on a number in [0, 1] is not judged: with so few users the number
// cannot have a lower bound above it, and its upper bound is above it. It is empty otherwise, and with 0 users,
// which outcomes of earlier versions have.
func TooFew(name string, users int, high, limit, unit float64) string {
	fewest := MinAbove(limit * unit)
	if users == 0 || users >= fewest || high <= limit {
		return ""
	}
	return fmt.Sprintf("%s, of too few users: %d, where it takes %d for a lower bound above the limit of %.4g; the upper bound is above the limit", name, users, fewest, limit)
}

// Fail fails the gate, because a number that it limits is missing.
func (g *Gate) Fail(why string) {
	g.judged = true
	g.breaches = append(g.breaches, why)
}

// Breaches returns the breaches of the judged numbers. If no number is judged, it returns the reasons.
func (g *Gate) Breaches() []string {
	switch {
	case g.judged:
		return g.breaches
	case len(g.tooFew) == 0:
		return NoValue(g.Name, "the audit has measured none")
	}
	return g.tooFew
}

// Unjudged returns the numbers with too few users, if others are judged.
func (g *Gate) Unjudged() []string {
	if !g.judged {
		return nil
	}
	return g.tooFew
}

// MinAbove returns the smallest n for which the lower end of n out of n, in the interval of Clopper and
// Pearson, is above a limit; 0 if there is none.
func MinAbove(limit float64) int {
	if limit >= 1 {
		return 0
	}
	return 1 + int(math.Log(intervalTail)/math.Log(limit))
}

// TooFewToTell returns a clause about too few users for a number in [0, 1] to have a lower bound above
// chance; empty if there are enough.
func TooFewToTell(users int, chance float64) string {
	if fewest := MinAbove(chance); 0 < users && users < fewest {
		return fmt.Sprintf(", too few users to tell it from chance: %d of at least %d", users, fewest)
	}
	return ""
}

// FalseAlarm is the probability that a limit fails a cell by pure chance.
type FalseAlarm struct {
	// Limit is the field of audit.fail_if, Allowed the largest value that passes.
	Limit   string
	Allowed float64
	// Trials is the number of chances. Unit names them, such as "canaries".
	Trials int
	Unit   string
	// Where describes the cell. Empty means a cell whose model has memorized nothing.
	Where string
	// Probability is that of failing, in [0, 1]: an upper bound if fewer canaries were inserted than planned.
	Probability float64
	// Users is the number of users in the data, 0 if unknown. A cell with fewer than Fewest fails.
	Users, Fewest int
}

// TooFew reports whether the cell fails for too few users, not by chance.
func (f *FalseAlarm) TooFew() bool { return 0 < f.Users && f.Users < f.Fewest }

// Alarms is LimitOf.FalseAlarms of an audit with Fields F.
func Alarms[F Fields, L any](alarms func(f F, s *Setting, limit L) []FalseAlarm) func(*Setting, L) []FalseAlarm {
	return func(s *Setting, limit L) []FalseAlarm {
		if f, asked := FieldsOf[F](s); asked {
			return alarms(f, s, limit)
		}
		return nil
	}
}

// FactorAlarms returns the false alarms of a limit on several factors of chance, each with an interval of
// Confidence: a lower end is above the true value with probability (1 - Confidence) / 2. users is 0 if
// unknown.
func FactorAlarms(limit string, allowed float64, numbers int, unit string, users int, chance float64) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed, Trials: numbers, Unit: unit, Where: WithMinUsers("the measured number at the limit", users),
		Probability: min(1, float64(numbers)*(1-Confidence)/2),
		Users:       users, Fewest: MinAbove(allowed * chance),
	}}
}

// AboveSignificantly returns a breach if a share is above a limit by the exact binomial test. where names the
// part of the data and may be empty.
func AboveSignificantly(limit, where string, s Share, allowed numbers.Probability, significance float64) []string {
	if s.Of == 0 {
		return NoValue(limit+where, "the audit has measured none")
	}
	p := s.AtLeast(allowed.Float64())
	if p >= significance {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.4g%s (%d of %d), above the limit of %s (%s)", limit, s.Share, where, s.Count, s.Of, allowed, PText(p))}
}

// SignificanceAlarms returns the false alarms of a limit that AboveSignificantly judges.
func SignificanceAlarms(limit string, allowed numbers.Probability, items int, unit string, significance numbers.Probability) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed.Float64(), Trials: items, Unit: unit, Where: "the model at the limit", Probability: significance.Float64(),
	}}
}

// WithMinUsers adds the required number of users to the description of a cell, if the number of users is unknown.
func WithMinUsers(where string, users int) string {
	if users == 0 {
		where += ", of enough users to judge it"
	}
	return where
}

// CanaryAlarms returns the false alarms of a limit on the inserted canaries. probability is that for n of them.
func CanaryAlarms(s *Setting, limit string, allowed float64, probability func(n int) float64) []FalseAlarm {
	if s.Canaries == nil {
		return nil
	}
	n := s.Canaries.Inserted
	return []FalseAlarm{{Limit: limit, Allowed: allowed, Trials: n, Unit: "canaries", Probability: probability(n)}}
}

// checkCount reports a limit that no count of inserted canaries exceeds.
func checkCount(s *Setting, limit string, allowed int, fail Fail) {
	if s.Canaries == nil || allowed < s.Canaries.Inserted {
		return
	}
	fail([]string{"audit.fail_if." + limit, "canaries"}, "is %d, which no cell can exceed: %d canaries are inserted; expected less than that, or remove the limit", allowed, s.Canaries.Inserted)
}

// BinomialTail returns the probability of more than k out of n independent events of probability p: the upper
// binomial tail, without cancellation.
func BinomialTail(k, n int, p float64) float64 {
	switch {
	case k >= n:
		return 0
	case k == 0:
		return -math.Expm1(float64(n) * math.Log1p(-p))
	}
	return mathext.RegIncBeta(float64(k+1), float64(n-k), p)
}
