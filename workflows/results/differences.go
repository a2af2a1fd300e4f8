package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Difference is that of two rows of replicates, seed by seed: Row's value less To's.
type Difference struct {
	// Row and To are names of rows.
	Row     string `json:"row"`
	Label   string `json:"label"`
	To      string `json:"to"`
	ToLabel string `json:"to_label"`
	// Axes are the paths in which the two differ.
	Axes []string `json:"axes"`
	// Seeds are those that both have finished.
	Seeds []uint64 `json:"seeds"`
	// Utility says whether the models predict equally well; nil where nothing says how well.
	Utility *Matching `json:"utility"`
	// Measures are those of rows, by their names.
	Measures map[string]*audits.Estimate `json:"measures"`
	// Canaries are compared one by one, by columns of the canaries' rows.
	Canaries map[string]*Pairing `json:"canaries"`
}

// Matching says whether two rows are of equal utility: in recall@1 and perplexity, or in the
// measure of another prediction than words.
type Matching struct {
	// Measure of the utility, and the mean Difference of the two rows, which is matched up
	// to Within.
	Measure    string  `json:"measure"`
	Difference float64 `json:"difference"`
	Within     float64 `json:"within"`
	// Perplexity has to be matched, too, where models predict words. It is nil where they do not, and where one
	// of the perplexities is infinite.
	Perplexity *Tolerance `json:"perplexity,omitempty"`
	Matched    bool       `json:"matched"`
	// Reason says why utility is not matched.
	Reason string `json:"reason,omitempty"`
}

// Tolerance is a difference and how large it may be.
type Tolerance struct {
	Difference float64 `json:"difference"`
	Within     float64 `json:"within"`
}

// holds names a measure whose difference is too large, or returns "".
func (t Tolerance) holds(measure string) string {
	if math.Abs(t.Difference) <= t.Within {
		return ""
	}
	return fmt.Sprintf("%s differs by %+.3g, more than %.3g", measure, t.Difference, t.Within)
}

// Up to which difference the utility of two rows is matched: a share of the test targets, and a
// share of the other row's perplexity.
const (
	RecallWithin     = 0.01 // Thakkar et al. 2020, section 4.2
	PerplexityWithin = 0.05
)

// utilities are the measures by which utility is matched, the first that there is: within a
// point, or of an error within a share of it.
var utilities = []struct {
	measure string
	within  float64
	share   bool
}{
	{"recall_at_1", RecallWithin, false},
	{"mean_average_precision", 0.01, false},
	{"mean_absolute_error", 0.05, true},
}

// newDifferences compare each row with the first one that differs from it on one axis alone,
// for every axis; where there is none with the first row. Rows without a common seed are left
// out.
func newDifferences(rows []*viewRow) []Difference {
	var list []Difference
	firsts := map[string]*viewRow{} // by an axis and the values of the others
	for _, row := range rows {
		var baselines []*viewRow
		for i := range row.Axes {
			line := alongAxis(row.Axes, i)
			switch first := firsts[line]; first {
			case nil:
				firsts[line] = row
			default:
				baselines = append(baselines, first)
			}
		}
		if len(baselines) == 0 && row != rows[0] {
			baselines = rows[:1]
		}
		for _, to := range baselines {
			if d := newDifference(row, to); d != nil {
				list = append(list, *d)
			}
		}
	}
	return list
}

// alongAxis is the same for rows that differ in the i-th axis alone.
func alongAxis(axes experiment.Axes, i int) string {
	others := slices.Concat(axes[:i], axes[i+1:])
	return axes[i].Path + "\n" + text(others)
}

// newDifference is that of two rows; nil if no seed is done in both.
func newDifference(row, to *viewRow) *Difference {
	d := &Difference{
		Row: row.Name, Label: row.Label, To: to.Name, ToLabel: to.Label, Axes: differing(row.Axes, to.Axes), Seeds: []uint64{},
		Measures: map[string]*audits.Estimate{}, Canaries: map[string]*Pairing{},
	}
	for _, seed := range row.Seeds {
		if to.done[seed] != nil {
			d.Seeds = append(d.Seeds, seed)
		}
	}
	if len(d.Seeds) == 0 {
		return nil
	}
	d.measure(row, to)
	d.pair(row, to)
	d.Utility = d.matching(row, to)
	return d
}

// differing are the paths in which axes differ, in the order of the first and then of the
// second.
func differing(a, b experiment.Axes) []string {
	list := []string{}
	for _, axis := range slices.Concat(a, b) {
		equal := func(other experiment.Axis) bool {
			return other.Path == axis.Path && string(other.Value) == string(axis.Value)
		}
		if !(slices.ContainsFunc(a, equal) && slices.ContainsFunc(b, equal)) && !slices.Contains(list, axis.Path) {
			list = append(list, axis.Path)
		}
	}
	return list
}

// measure computes the differences of the measures that both rows have, seed by seed. A measure that
// is infinite for a seed has no difference.
func (d *Difference) measure(row, to *viewRow) {
	for _, m := range measures() {
		var values []float64
		for _, seed := range d.Seeds {
			a, known := row.done[seed].number(m.place, m.Name)
			b, both := to.done[seed].number(m.place, m.Name)
			if known && both {
				values = append(values, a-b)
			}
		}
		if e := audits.NewEstimate(values); e != nil && !slices.ContainsFunc(values, notFinite) {
			mine, others := row.Measures[m.Name], to.Measures[m.Name]
			least, most := mine.within(m.Measure)
			otherLeast, otherMost := others.within(m.Measure)
			e.Clip(least-otherMost, most-otherLeast)
			d.Measures[m.Name] = e
		}
	}
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// pair compares the canaries that both rows have inserted, seed by seed.
func (d *Difference) pair(row, to *viewRow) {
	for _, m := range pairedMeasures() {
		var seeds [][]float64
		for _, seed := range d.Seeds {
			seeds = append(seeds, pairs(row.done[seed], to.done[seed], m.Name))
		}
		if p := NewPairing(seeds); p != nil {
			least, most := m.Range()
			p.Difference.Clip(least-most, most-least)
			d.Canaries[m.Name] = p
		}
	}
}

// pairs are the differences in a column of the canaries that both cells have inserted.
func pairs(a, b *viewCell, column string) (differences []float64) {
	others := b.inserted(column)
	own := a.inserted(column)
	for _, canary := range a.decoded.Canaries {
		key := canaryKey(&canary)
		mine, known := own[key]
		other, both := others[key]
		if known && both {
			differences = append(differences, mine-other)
		}
	}
	return differences
}

// inserted are the numbers in a column of the canaries that were inserted.
func (v *viewCell) inserted(column string) map[string]float64 {
	numbers := map[string]float64{}
	for i := range v.decoded.Canaries {
		canary := &v.decoded.Canaries[i]
		if canary.Role != audits.Inserted {
			continue
		}
		for _, canaryOutcome := range canary.Outcomes {
			if number, ok := ofCanaryOutcome(canaryOutcome).number(canaryOutcome, column); ok && !notFinite(number) {
				numbers[canaryKey(canary)] = number
			}
		}
	}
	return numbers
}

// canaryKey tells a canary from others of its cell.
func canaryKey(c *audits.Canary) string { return c.Format + "\n" + strings.Join(c.Words, "\n") }

// matching says whether utility is matched; nil where nothing tells.
func (d *Difference) matching(row, to *viewRow) *Matching {
	for _, u := range utilities {
		e := d.Measures[u.measure]
		if e == nil {
			continue
		}
		m := &Matching{Measure: u.measure, Difference: float64(e.Mean), Within: u.within}
		if u.share {
			m.Within *= float64(to.Measures[u.measure].Mean)
		}
		m.Reason = Tolerance{m.Difference, m.Within}.holds(u.measure)
		if u.measure == "recall_at_1" {
			m.matchWords(d, row, to)
		}
		m.Matched = m.Reason == ""
		return m
	}
	return nil
}

// matchWords matches the perplexity of models of words, neither of which may predict nothing: two models
// without any recall are not equally useful but equally useless.
func (u *Matching) matchWords(d *Difference, row, to *viewRow) {
	perplexity := to.Measures["perplexity"].Mean
	if e := d.Measures["perplexity"]; e != nil {
		u.Perplexity = &Tolerance{float64(e.Mean), PerplexityWithin * float64(perplexity)}
	}
	switch {
	case u.Reason != "":
	case row.atBaseline() || to.atBaseline():
		u.Reason = "one of them has learned no more than word frequencies"
	case row.Measures[u.Measure].Mean <= 0 || to.Measures[u.Measure].Mean <= 0:
		u.Reason = "recall_at_1 is 0 in one of them"
	case u.Perplexity != nil:
		u.Reason = u.Perplexity.holds("perplexity")
	case perplexity.Infinite() || row.Measures["perplexity"].Mean.Infinite():
		u.Reason = "a perplexity is infinite"
	}
}
