package results

import (
	"slices"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
)

// replicateRow holds the last columns of cells and canaries in runs with replicates. Other runs lack them.
type replicateRow struct {
	Row  *string `parquet:"row" doc:"row of the table that the cell belongs to"`
	Seed *int64  `parquet:"seed" doc:"seed of the cell"`
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

// estimateRow is an estimate over seeds. All fields are null without an estimate.
type estimateRow struct {
	N    *int64   `parquet:"n" doc:"trainings of the mean"`
	Mean *float64 `parquet:"mean" doc:"mean over the seeds, of differences that of the first row less the second"`
	SD   *float64 `parquet:"sd" doc:"standard deviation over the seeds"`
	Low  *float64 `parquet:"low" doc:"lower end of the 95% interval of the mean by Student's t"`
	High *float64 `parquet:"high" doc:"upper end of the 95% interval of the mean by Student's t"`
}

func newEstimateRow(e *audits.Estimate) estimateRow {
	return estimateRow{new(int64(e.N)), new(float64(e.Mean)), e.SD, e.Low, e.High}
}

// meanRow is a measure of a row of replicates.
type meanRow struct {
	Run        string `parquet:"run" doc:"name of the run"`
	Experiment string `parquet:"experiment" doc:"name of the experiment"`
	Row        string `parquet:"row" doc:"name of the row: cells that differ only in the seed"`
	Label      string `parquet:"label" doc:"label of the row: what differs between rows"`
	Axes       string `parquet:"axes" doc:"fields of the grid with their values, without the seed, as JSON"`
	Measure    string `parquet:"measure" doc:"measure that the numbers are of: a column of cells or of canaries"`
}

// pooledRow is the fraction of all seeds' canaries. It is null for measures that are not counts.
type pooledRow struct {
	Count *int64   `parquet:"pooled_count" doc:"canaries that the measure counts, in all seeds together"`
	Of    *int64   `parquet:"pooled_of" doc:"canaries that the measure counts among, in all seeds together"`
	Share *float64 `parquet:"pooled_share" doc:"pooled_count over pooled_of"`
	Low   *float64 `parquet:"pooled_low" doc:"lower end of the 95% interval of pooled_share by Korn and Graubard"`
	High  *float64 `parquet:"pooled_high" doc:"upper end of the 95% interval of pooled_share by Korn and Graubard"`
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
	t := newFlatTable("means", parts[Means])
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

// differenceRow is a number by which two rows of replicates are compared.
type differenceRow struct {
	Run        string `parquet:"run" doc:"name of the run"`
	Experiment string `parquet:"experiment" doc:"name of the experiment"`
	Row        string `parquet:"row" doc:"name of the first of the two compared rows"`
	Label      string `parquet:"label" doc:"label of the first row"`
	To         string `parquet:"to" doc:"name of the second row"`
	ToLabel    string `parquet:"to_label" doc:"label of the second row"`
	Axes       string `parquet:"axes" doc:"fields in which the two rows differ"` // paths, separated by commas
	// UtilityMatched is null if unknown.
	UtilityMatched *bool `parquet:"utility_matched" doc:"whether the two rows have equal utility; empty if unknown"`
	// Of is the measured unit: a cell as a whole, or a single canary.
	Of      string `parquet:"of" doc:"unit that the measure is of: cell for a model, canary for each canary"`
	Measure string `parquet:"measure" doc:"measure that the numbers are of: a column of cells or of canaries"`
}

// pairingRow holds counts of canaries. It is null for a measure of cells.
type pairingRow struct {
	Pairs *int64   `parquet:"canaries" doc:"canaries compared between the two rows"`
	More  *int64   `parquet:"more" doc:"canaries with the larger number in the first row"`
	Fewer *int64   `parquet:"fewer" doc:"canaries with the smaller number in the first row"`
	P     *float64 `parquet:"p" doc:"p-value of the exact sign test over canaries"`
	// Censored is Pairing.Censored.
	Censored *int64 `parquet:"censored" doc:"compared values that are lower bounds, because the rank is 1"`
}

func newPairingRow(p *Pairing) pairingRow {
	row := pairingRow{Pairs: new(int64(p.Pairs)), More: new(int64(p.More)), Fewer: new(int64(p.Fewer)), P: &p.P}
	if p.Censored != nil {
		row.Censored = new(int64(*p.Censored))
	}
	return row
}

// differenceRows returns a row for each measure of each difference, and then one for each column by which
// individual canaries are compared.
func differenceRows(v *view) (*flatTable, error) {
	t := newFlatTable("differences", parts[Differences])
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
