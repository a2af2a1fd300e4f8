package results

import (
	"slices"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// replicateRow holds the last columns of cells and canaries in runs with replicates; other runs lack them.
type replicateRow struct {
	Row  *string `parquet:"row"`
	Seed *int64  `parquet:"seed"`
}

func replicateOf(c *viewCell) any {
	var row replicateRow
	if c.Row != nil {
		row.Row = &c.Row.Name
		if _, seed, ok := c.Axes.Replicate(); ok {
			row.Seed = new(int64(seed))
		}
	}
	return row
}

// estimateRow is an estimate over seeds; all fields are null without one.
type estimateRow struct {
	N    *int64   `parquet:"n"`
	Mean *float64 `parquet:"mean"`
	SD   *float64 `parquet:"sd"`
	Low  *float64 `parquet:"low"`
	High *float64 `parquet:"high"`
}

func newEstimateRow(e *audits.Estimate) estimateRow {
	return estimateRow{new(int64(e.N)), new(float64(e.Mean)), e.SD, e.Low, e.High}
}

// meanRow is a measure of a row of replicates.
type meanRow struct {
	Run        string `parquet:"run"`
	Experiment string `parquet:"experiment"`
	Row        string `parquet:"row"`
	Label      string `parquet:"label"`
	Axes       string `parquet:"axes"`
	Measure    string `parquet:"measure"`
}

// pooledRow is the fraction of all seeds' canaries; null for measures that are not counts.
type pooledRow struct {
	Count *int64   `parquet:"pooled_count"`
	Of    *int64   `parquet:"pooled_of"`
	Share *float64 `parquet:"pooled_share"`
	Low   *float64 `parquet:"pooled_low"`
	High  *float64 `parquet:"pooled_high"`
}

func newPooledRow(s *audits.Share) pooledRow {
	if s == nil {
		return pooledRow{}
	}
	return pooledRow{new(int64(s.Count)), new(int64(s.Of)), &s.Share, &s.Low, &s.High}
}

// meanRows returns a row for each measure of each row of replicates, and one for the number of rounds of
// trainings with a target utility.
func meanRows(v *view) (*flatTable, error) {
	t := newFlatTable("means", []any{meanRow{}, estimateRow{}, pooledRow{}, baselineRow{}})
	for _, row := range v.rows {
		axes, err := axesJSON(row.Axes)
		if err != nil {
			return nil, err
		}
		for _, m := range measures() {
			over, measured := row.Measures[m.Name]
			if !measured {
				continue
			}
			about := meanRow{v.Run, v.Experiment, row.Name, row.Label, axes, m.Name}
			t.add([]any{about, newEstimateRow(&over.Estimate), newPooledRow(over.Pooled), baseline(row)})
		}
		if rounds := row.rounds(); rounds != nil {
			about := meanRow{v.Run, v.Experiment, row.Name, row.Label, axes, roundsMeasure.Name}
			t.add([]any{about, newEstimateRow(rounds), pooledRow{}, baseline(row)})
		}
	}
	return t, nil
}

// differenceRow is a number in which two rows of replicates are compared.
type differenceRow struct {
	Run        string `parquet:"run"`
	Experiment string `parquet:"experiment"`
	Row        string `parquet:"row"`
	Label      string `parquet:"label"`
	To         string `parquet:"to"`
	ToLabel    string `parquet:"to_label"`
	Axes       string `parquet:"axes"` // paths, separated by commas
	// UtilityMatched is null if unknown.
	UtilityMatched *bool `parquet:"utility_matched"`
	// Of is the measured unit: a cell as a whole, or each canary.
	Of      string `parquet:"of"`
	Measure string `parquet:"measure"`
}

// pairingRow holds counts of canaries; null for a measure of cells.
type pairingRow struct {
	Pairs *int64   `parquet:"canaries"`
	More  *int64   `parquet:"more"`
	Fewer *int64   `parquet:"fewer"`
	P     *float64 `parquet:"p"`
	// Censored is Pairing.Censored.
	Censored *int64 `parquet:"censored"`
}

func newPairingRow(p *Pairing) pairingRow {
	row := pairingRow{Pairs: new(int64(p.Pairs)), More: new(int64(p.More)), Fewer: new(int64(p.Fewer)), P: &p.P}
	if p.Censored != nil {
		row.Censored = new(int64(*p.Censored))
	}
	return row
}

// differenceRows returns a row for each measure of each difference, and then one for each column of
// individually compared canaries.
func differenceRows(v *view) (*flatTable, error) {
	t := newFlatTable("differences", []any{differenceRow{}, estimateRow{}, pairingRow{}, baselineRow{}})
	for i := range v.differences {
		d := &v.differences[i]
		about := differenceRow{Run: v.Run, Experiment: v.Experiment, Row: d.Row, Label: d.Label, To: d.To, ToLabel: d.ToLabel, Axes: strings.Join(d.Axes, ",")}
		if d.Utility != nil {
			about.UtilityMatched = &d.Utility.Matched
		}
		for _, m := range measures() {
			if e := d.Measures[m.Name]; e != nil {
				about.Of, about.Measure = "cell", m.Name
				t.add([]any{about, newEstimateRow(e), pairingRow{}, d.baseline})
			}
		}
		for _, m := range pairedMeasures() {
			if p := d.Canaries[m.Name]; p != nil {
				about.Of, about.Measure = "canary", m.Name
				t.add([]any{about, newEstimateRow(p.Difference), newPairingRow(p), d.baseline})
			}
		}
	}
	return t, nil
}

// pairedMeasures returns the measures of canaries by which rows are compared.
func pairedMeasures() (list []audits.Measure) {
	for _, d := range all.Audits() {
		paired := slices.DeleteFunc(slices.Clone(d.Canary), func(m audits.Measure) bool { return !m.Paired })
		slices.SortStableFunc(paired, func(a, b audits.Measure) int { return a.Place - b.Place })
		list = append(list, paired...)
	}
	return list
}
