package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/workflows/experiment"
)

// Best is the row of replicates that memorizes least at equal utility: among the rows that match the best
// utility, it has the lowest mean of a measure over its seeds. Rows with a single seed are excluded, so that
// a lucky seed is not chosen.
type Best struct {
	Row   string `json:"row"`
	Label string `json:"label"`
	// Utility and Measure are the measures that decide: the measure of utility, and the run's first measure
	// with a direction, such as a count of memorized canaries or the AUC of its membership audit.
	Utility string `json:"utility"`
	Measure string `json:"measure"`
	// Among lists the names of the rows of equal utility, including Row.
	Among []string `json:"among"`
	// Undecided lists the names in Among whose difference from Row over paired seeds has a 95% interval
	// that contains 0, or is 0 for every seed.
	Undecided []string `json:"undecided"`

	column tableColumn
	rows   []*viewRow // named in Among
	row    *viewRow   // named Row
}

// newBest chooses a row. It returns nil if no two rows with several seeds have equal utility.
func newBest(rows []*viewRow) *Best {
	utility, top := topUtility(rows)
	if top == nil {
		return nil
	}
	b := &Best{Utility: utility, Undecided: []string{}}
	for _, row := range rows {
		d := newDifference(row, top)
		if row == top || repeated(row, utility) && d != nil && d.Utility != nil && d.Utility.Matched {
			b.Among, b.rows = append(b.Among, row.Name), append(b.rows, row)
		}
	}
	if len(b.Among) < 2 || !b.decide() {
		return nil
	}
	return b
}

// repeated reports whether a row has a measure for two seeds or more.
func repeated(row *viewRow, measure string) bool { return row.Measures[measure].N > 1 }

// topUtility returns the row with the best mean of the first measure of utility that rows have.
func topUtility(rows []*viewRow) (measure string, top *viewRow) {
	for _, u := range utilities {
		for _, row := range rows {
			if repeated(row, u.measure) && (top == nil || betterOf(u.measure).Than(row.Measures[u.measure].Mean, top.Measures[u.measure].Mean)) {
				top = row
			}
		}
		if top != nil {
			return u.measure, top
		}
	}
	return "", nil
}

// betterOf returns the direction of a measure.
func betterOf(measure string) audits.Direction {
	return lists.Find(measures(), func(c *tableColumn) bool { return c.Name == measure }).Better
}

// decide chooses the row by the first measure with a direction, except those of utility, that all candidates
// have for several seeds. It returns false if there is no such measure.
func (b *Best) decide() bool {
	for _, m := range measures() {
		if m.Better == "" || all.Audits()[m.place].Utility != nil || slices.ContainsFunc(b.rows, func(r *viewRow) bool { return !repeated(r, m.Name) }) {
			continue
		}
		b.Measure, b.column, b.row = m.Name, m, b.rows[0]
		for _, row := range b.rows {
			if m.Better.Than(row.Measures[m.Name].Mean, b.row.Measures[m.Name].Mean) {
				b.row = row
			}
		}
		b.Row, b.Label = b.row.Name, b.row.Label
		b.compare()
		return true
	}
	return false
}

// compare finds the candidates whose paired seeds do not distinguish them from the chosen row.
func (b *Best) compare() {
	for _, row := range b.rows {
		if row == b.row {
			continue
		}
		var e *audits.Estimate
		if d := newDifference(row, b.row); d != nil {
			e = d.Measures[b.Measure]
		}
		if e == nil || e.Mean == 0 || e.Low != nil && *e.Low <= 0 {
			b.Undecided = append(b.Undecided, row.Name)
		}
	}
}

// text describes the choice in one sentence. It returns "" without a choice.
func (b *Best) text() string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("Best at equal utility: %s (%s) has the least mean of %s, %s, among %s that match the best in %s.",
		b.Label, b.Row, b.column.Header, b.row.text(b.column), readable.Count(len(b.Among), "setting"), utilityTexts[b.Utility])
	if len(b.Undecided) > 0 {
		text += fmt.Sprintf(" Its seeds do not distinguish it from %s.", strings.Join(b.Undecided, ", "))
	}
	return text
}

// utilityTexts are the names of measures of utility in the text of a Best.
var utilityTexts = map[string]string{"recall_at_1": "recall@1 and perplexity", "mean_average_precision": "mean average precision", "mean_absolute_error": "mean absolute error"}

// Ranking describes the references among which the canaries of an external model were ranked. Its program
// scores every sequence as a text, so there are few references, and exposures beyond them are lower bounds.
type Ranking struct {
	// References is the number of references for each canary.
	References int `json:"references"`
	// Of is the number of ranked canaries, including held-back ones. The ranks of Estimated of them were estimated
	// from a pilot; Censored of them have rank 1, so that their exposure is at least log2 of References.
	Of        int `json:"of"`
	Estimated int `json:"estimated"`
	Censored  int `json:"censored"`
	// HeldBack is the number of held-back canaries, with which the others can be compared without references.
	HeldBack int    `json:"held_back"`
	Why      string `json:"why"`
}

// newRanking describes a ranking. It returns nil for a built-in model, and without random sampling.
func newRanking(e *experiment.Experiment, c *audits.Cell) *Ranking {
	v, measured := audits.OutcomeOf[*randomsampling.Outcome](c)
	if e.Model.Kind != models.External || !measured {
		return nil
	}
	r := &Ranking{References: v.References}
	for i := range c.Canaries {
		r.count(&c.Canaries[i])
	}
	r.Why = r.why()
	return r
}

func (r *Ranking) count(c *audits.Canary) {
	if c.Role == audits.HeldBack {
		r.HeldBack++
	}
	for _, canaryOutcome := range c.Outcomes {
		o, ok := canaryOutcome.(*randomsampling.CanaryOutcome)
		if !ok || o.Rank == nil {
			continue
		}
		r.Of++
		if !*o.RankExact {
			r.Estimated++
		}
		if *o.ExposureCensored {
			r.Censored++
		}
	}
}

func (r *Ranking) why() string {
	reasons := []string{"the program scores each sequence as a text, so audit.random_sampling.references is small"}
	if r.Estimated > 0 {
		reasons = append(reasons, "ranks that are large among the first references are estimated from these, without scoring the others")
	}
	if r.Censored > 0 {
		reasons = append(reasons, fmt.Sprintf("exposures above %.1f bits need more references", math.Log2(float64(r.References))))
	}
	if r.HeldBack > 0 {
		reasons = append(reasons, "held-back canaries show memorization without references")
	}
	return strings.Join(reasons, "; ")
}

// String returns a note for the table.
func (r *Ranking) String() string {
	return fmt.Sprintf("%s ranked among %s, %d of them by an estimate, %d with the exposure as a lower bound: %s",
		readable.Count(r.Of, "canary"), readable.Count(r.References, "reference"), r.Estimated, r.Censored, r.Why)
}
