package forecast

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/experiment"
)

// Enough is the power of a sufficiently large audit.
const Enough = 0.8

// Power is the probability that an audit finds a leak.
type Power struct {
	Audit     string `json:"audit"`
	Statement string `json:"statement,omitempty"`
	// Cells are the cells with the statement.
	Cells []string `json:"cells"`
	// Finds describes the result that counts as a finding.
	Finds string `json:"finds"`
	// Gate is the field of audit.fail_if that decides. If it is empty, the audit decides.
	Gate string `json:"gate,omitempty"`
	Leak Leak   `json:"leak"`
	// Power is the probability of a finding, in [0, 1].
	Power float64 `json:"power"`
	// Reaches is the largest limit that the audit exceeds with probability Enough, or nil.
	Reaches *float64 `json:"reaches,omitempty"`
	// None is the reason why no leak of any size can be found, or "".
	None string   `json:"none,omitempty"`
	By   []Varied `json:"by,omitempty"`
}

// Leak is the leak to find.
type Leak struct {
	Name  string  `json:"name"`
	Means string  `json:"means"`
	Value float64 `json:"value"`
}

// Varied is the power as a function of one size, while the other sizes stay the same.
type Varied struct {
	Unit string `json:"unit"`
	// Path is the field that sets the size. It is empty if the data determine it.
	Path   string  `json:"path,omitempty"`
	N      int     `json:"n"`
	Points []Point `json:"points"`
	// Enough is the smallest size with power Enough, and Value is the value of the field for it; both are
	// nil if no size up to Most has it.
	Enough *int `json:"enough,omitempty"`
	Value  *int `json:"value,omitempty"`
	Most   int  `json:"most"`
	// Seconds is the time of a run with the size Enough on this machine, if known. Refused is the reason
	// why the experiment cannot have this size.
	Seconds *float64 `json:"seconds,omitempty"`
	Refused string   `json:"refused,omitempty"`
}

// Point is the power at the size N.
type Point struct {
	N     int     `json:"n"`
	Power float64 `json:"power"`
}

// Powers computes the power of an experiment's audits. leaks sets the sizes of leaks by the name of the statement.
func Powers(s *experiment.Spec, leaks map[string]float64) ([]Power, error) {
	list := s.Powers()
	if err := check(list, leaks); err != nil {
		return nil, err
	}
	return merged(lists.Make(len(list), func(i int) Power { return powerOf(&list[i], leaks) })), nil
}

// merged merges equal statements, with their cells.
func merged(powers []Power) (list []Power) {
	equal := func(a, b Power) bool {
		a.Cells, b.Cells = nil, nil
		return reflect.DeepEqual(a, b)
	}
	for _, p := range powers {
		if at := slices.IndexFunc(list, func(other Power) bool { return equal(p, other) }); at >= 0 {
			list[at].Cells = append(list[at].Cells, p.Cells...)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// check returns an error for a leak without a statement or out of its range.
func check(list []experiment.Power, leaks map[string]float64) error {
	var names []string
	known := map[string]experiment.Power{}
	for _, p := range list {
		if _, there := known[p.String()]; !there {
			names = append(names, fmt.Sprintf("%q", p.String()))
		}
		known[p.String()] = p
	}
	for name, leak := range leaks {
		p, there := known[name]
		switch {
		case len(names) == 0:
			return fmt.Errorf("leak of %q: no audit of the experiment has a statement with a computable power", name)
		case !there:
			return fmt.Errorf("leak of %q: expected one of the experiment's statements: %s", name, strings.Join(names, ", "))
		case !(leak >= p.Leak.Min && leak <= p.Leak.Max):
			return fmt.Errorf("leak of %q: %s %g; expected %s from %g to %g", name, p.Leak.Means, leak, p.Leak.Name, p.Leak.Min, p.Leak.Max)
		}
	}
	return nil
}

// Planned returns the powers of an experiment's audits for leaks of the default sizes.
func Planned(s *experiment.Spec) []Power {
	list := s.Powers()
	return merged(lists.Make(len(list), func(i int) Power { return plannedPower(&list[i], list[i].Leak.Default) }))
}

func plannedPower(s *experiment.Power, leak float64) Power {
	return Power{
		Audit: s.Audit, Statement: s.Name, Cells: s.Cells, Finds: s.Find(), Gate: s.Gate, None: s.None,
		Leak: Leak{s.Leak.Name, s.Leak.Means, leak}, Power: s.PowerAt(s.Numbers(), leak),
	}
}

func powerOf(s *experiment.Power, leaks map[string]float64) Power {
	leak, given := leaks[s.String()]
	if !given {
		leak = s.Leak.Default
	}
	p := plannedPower(s, leak)
	p.By = lists.Make(len(s.Sizes), func(i int) Varied { return varied(s, i, leak) })
	if s.Limit != "" && s.Allowed == nil {
		p.Reaches = reaches(s, leak)
	}
	return p
}

// farthest bounds the search for a size with power Enough, in multiples of the present size.
const farthest = 1024

// varied computes the power as a function of one size.
func varied(s *experiment.Power, at int, leak float64) Varied {
	size := s.Sizes[at]
	v := Varied{Unit: readable.Plural(size.Unit), Path: size.Path, N: size.N, Most: farthest * size.N}
	with := func(n int) []int {
		numbers := s.Numbers()
		numbers[at] = n
		return numbers
	}
	for _, quarters := range []int{1, 2, 4, 8, 16} {
		if n := (size.N*quarters + 3) / 4; len(v.Points) == 0 || n > v.Points[len(v.Points)-1].N {
			v.Points = append(v.Points, Point{n, s.PowerAt(with(n), leak)})
		}
	}
	if v.Enough = enough(size.N, v.Most, func(n int) bool { return s.Reaches(Enough, with(n), leak) }); v.Enough != nil && size.Value > 0 {
		v.Value = new(int(math.Ceil(float64(size.Value) * float64(*v.Enough) / float64(size.N))))
	}
	return v
}

// enough returns the smallest number up to most for which has is true, or nil. It searches by halving or
// doubling n, and then between the last two numbers.
func enough(n, most int, has func(int) bool) *int {
	low, high := 0, n
	if has(n) {
		for high > 1 && has(high/2) {
			high /= 2
		}
		low = high / 2
	} else {
		for !has(high) {
			if low, high = high, 2*high; high > most {
				return nil
			}
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; has(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return &high
}

// least is the limit at which the bisection of reaches stops.
const least = 1e-6

// reaches returns the largest limit that is exceeded with probability Enough, to three digits or to least. It
// returns nil if not even 0 is, or if every limit is.
func reaches(s *experiment.Power, leak float64) *float64 {
	above := func(limit float64) bool {
		c := *s
		c.Allowed = &limit
		return c.Reaches(Enough, c.Numbers(), leak)
	}
	if !above(0) {
		return nil
	}
	low, high := 0.0, 1.0
	for above(high) {
		low, high = high, 2*high
		if math.IsInf(high, 1) {
			return nil
		}
	}
	for high-low > 5e-4*high && high > least {
		if middle := (low + high) / 2; above(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return &high
}

// Title returns the name of the statement, such as "membership tpr".
func (p *Power) Title() string { return strings.TrimSpace(p.Audit + " " + p.Statement) }
