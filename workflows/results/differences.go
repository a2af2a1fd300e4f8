package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Difference is the difference between two rows of replicates, seed by seed: the value of Row minus
// the value of To.
type Difference struct {
	// Row and To are names of rows.
	Row     string `json:"row"`
	Label   string `json:"label"`
	To      string `json:"to"`
	ToLabel string `json:"to_label"`
	// Axes are the paths of the axes that differ.
	Axes []string `json:"axes"`
	// Seeds are the seeds that both rows have finished.
	Seeds []uint64 `json:"seeds"`
	// Utility reports whether the models predict equally well. It is nil if unknown.
	Utility *Matching `json:"utility"`
	// Measures are the differences by measure name.
	Measures map[string]*audits.Estimate `json:"measures"`
	// Canaries compares individual canaries, by column of the canaries' rows.
	Canaries map[string]*Pairing `json:"canaries"`
	baseline baselineRow
}

// Matching reports whether two rows have equal utility: by recall@1 and perplexity, or by the measure of
// utility of models that predict no words.
type Matching struct {
	// Measure is the measure of utility. Difference is the mean difference of the two rows, which may be at
	// most Within.
	Measure    string  `json:"measure"`
	Difference float64 `json:"difference"`
	Within     float64 `json:"within"`
	// Perplexity must match too if models predict words. It is nil otherwise, and if a perplexity is infinite.
	Perplexity *Tolerance `json:"perplexity,omitempty"`
	Matched    bool       `json:"matched"`
	// Reason explains why utility is not matched.
	Reason string `json:"reason,omitempty"`
}

// Tolerance is a difference with its limit.
type Tolerance struct {
	Difference float64 `json:"difference"`
	Within     float64 `json:"within"`
}

// holds returns a text with the name of the measure if its difference exceeds the limit, or "".
func (t Tolerance) holds(measure string) string {
	if math.Abs(t.Difference) <= t.Within {
		return ""
	}
	return fmt.Sprintf("%s differs by %+.3g, more than %.3g", measure, t.Difference, t.Within)
}

// Limits of the difference in utility between matched rows: a fraction of the test targets, and a fraction
// of the other row's perplexity.
const (
	RecallWithin     = 0.01 // Thakkar et al. 2020, section 4.2
	PerplexityWithin = 0.05
)

// utilities are the measures of utility. The first available one decides, within a difference or, if share
// is set, within a fraction of the other row's value.
var utilities = []struct {
	measure string
	within  float64
	share   bool
}{
	{"recall_at_1", RecallWithin, false},
	{"mean_average_precision", 0.01, false},
	{"mean_absolute_error", 0.05, true},
}

// newDifferences compares each row, for every axis, with the first row that differs only in this axis, or
// else with the first row. It omits pairs of rows without a common seed.
func newDifferences(rows []*viewRow) []Difference {
	var list []Difference
	firsts := map[string]*viewRow{} // by an axis and the values of the other axes
	for _, row := range rows {
		var baselines []*viewRow
		for i := range row.Axes {
			line := row.Axes[i].Path + "\n" + text(slices.Concat(row.Axes[:i], row.Axes[i+1:])) // equal for rows that differ only in this axis
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

// newDifference compares two rows. It returns nil if they have no common finished seed.
func newDifference(row, to *viewRow) *Difference {
	d := &Difference{
		Row: row.Name, Label: row.Label, To: to.Name, ToLabel: to.Label, Axes: differing(row.Axes, to.Axes),
		Measures: map[string]*audits.Estimate{}, Canaries: map[string]*Pairing{},
	}
	d.Seeds = lists.Filter(row.Seeds, func(seed uint64) bool { return to.done[seed] != nil })
	if len(d.Seeds) == 0 {
		return nil
	}
	d.measure(row, to)
	d.pair(row, to)
	d.Utility = d.matching(row, to)
	d.baseline = baseline(row, to)
	return d
}

// differing returns the paths of different axes, in the order of a and then of b.
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

// measure computes the differences between the measures of both rows, seed by seed. It skips measures that
// are infinite for a seed.
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
		if e := audits.NewEstimate(values); e != nil && !slices.ContainsFunc(values, func(x float64) bool { return !numbers.IsFinite(x) }) {
			mine, others := row.Measures[m.Name], to.Measures[m.Name]
			least, most := mine.within(m.Measure)
			otherLeast, otherMost := others.within(m.Measure)
			e.Clip(least-otherMost, most-otherLeast)
			d.Measures[m.Name] = e
		}
	}
}

// pair compares the canaries inserted in both rows, seed by seed.
func (d *Difference) pair(row, to *viewRow) {
	for _, m := range pairedMeasures() {
		seeds := lists.Map(d.Seeds, func(seed uint64) []float64 { return pairs(row.done[seed], to.done[seed], m.Name) })
		if p := NewPairing(seeds); p != nil {
			least, most := m.Range()
			p.Difference.Clip(least-most, most-least)
			p.Censored = d.censored(row, to, m.Name+censoredSuffix)
			d.Canaries[m.Name] = p
		}
	}
}

// censored counts the canaries inserted in both rows that are at the limit in one of them, by the column
// that tells so. It returns nil without such a column.
func (d *Difference) censored(row, to *viewRow, column string) *int {
	pairs, limited := 0, 0
	for _, seed := range d.Seeds {
		others := to.done[seed].inserted(column)
		for key, mine := range row.done[seed].inserted(column) {
			if other, both := others[key]; both {
				pairs++
				limited += int(max(mine, other))
			}
		}
	}
	return audits.When(pairs > 0, limited)
}

// pairs returns the differences in a column between the canaries inserted in both cells.
func pairs(a, b *viewCell, column string) (differences []float64) {
	others := b.inserted(column)
	numbers := a.inserted(column)
	for _, canary := range a.decoded.Canaries {
		key := canaryKey(&canary)
		mine, known := numbers[key]
		other, both := others[key]
		if known && both {
			differences = append(differences, mine-other)
		}
	}
	return differences
}

// inserted returns the numbers in a column for the inserted canaries.
func (v *viewCell) inserted(column string) map[string]float64 {
	inserted := map[string]float64{}
	for i := range v.decoded.Canaries {
		canary := &v.decoded.Canaries[i]
		if canary.Role != audits.Inserted {
			continue
		}
		for _, canaryOutcome := range canary.Outcomes {
			if number, ok := ofCanaryOutcome(canaryOutcome).number(canaryOutcome, column); ok && numbers.IsFinite(number) {
				inserted[canaryKey(canary)] = number
			}
		}
	}
	return inserted
}

// canaryKey identifies a canary within its cell.
func canaryKey(c *audits.Canary) string { return c.Format + "\n" + strings.Join(c.Words, "\n") }

// matching reports whether utility is matched. It returns nil if unknown.
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

// matchWords matches the perplexity of models of words. Both must predict some words, because equal models
// without any recall tell nothing.
func (u *Matching) matchWords(d *Difference, row, to *viewRow) {
	perplexity := to.Measures["perplexity"].Mean
	if e := d.Measures["perplexity"]; e != nil {
		u.Perplexity = &Tolerance{float64(e.Mean), PerplexityWithin * float64(perplexity)}
	}
	switch {
	case u.Reason != "":
	case row.atBaseline() || to.atBaseline():
		u.Reason = "one of the models is no better than word frequencies"
	case row.Measures[u.Measure].Mean <= 0 || to.Measures[u.Measure].Mean <= 0:
		u.Reason = "recall_at_1 of one of the models is 0"
	case u.Perplexity != nil:
		u.Reason = u.Perplexity.holds("perplexity")
	case perplexity.Infinite() || row.Measures["perplexity"].Mean.Infinite():
		u.Reason = "a perplexity is infinite"
	}
}
