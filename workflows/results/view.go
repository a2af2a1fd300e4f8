package results

import (
	"encoding/json"
	"fmt"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
)

// view is what all formats are written from: results whose JSON is decoded.
type view struct {
	*Results
	cells []viewCell
	// rows are those of replicates, and differences between them; none without.
	rows        []*viewRow
	differences []Difference
}

// viewCell is a cell with its verdicts: one for each description of package all, nil
// where there is none.
type viewCell struct {
	*Cell
	decoded  audits.Cell
	verdicts []audits.Verdict
	// soFar are those of the newest measurement of a cell that still trains, which tables and rows of
	// cells show; nothing is computed from them.
	soFar []audits.Verdict
}

// told is what a description's audit says of the cell, so far if it still trains.
func (v *viewCell) told(place int) audits.Verdict {
	if v.soFar != nil {
		return v.soFar[place]
	}
	return v.verdicts[place]
}

func (r *Results) view() (*view, error) {
	v := &view{Results: r, cells: make([]viewCell, len(r.Cells))}
	for i := range r.Cells {
		var err error
		if v.cells[i], err = newViewCell(&r.Cells[i]); err != nil {
			return nil, fmt.Errorf("results of cell %s: %w", r.Cells[i].Cell, err)
		}
	}
	v.rows = newViewRows(v.cells)
	v.differences = newDifferences(v.rows)
	return v, nil
}

func newViewCell(c *Cell) (viewCell, error) {
	v := viewCell{Cell: c, verdicts: make([]audits.Verdict, len(all.Audits()))}
	v.decoded.Name = c.Cell
	if c.Report == nil {
		var err error
		if c.SoFar != nil {
			v.soFar, err = c.SoFar.verdicts()
		}
		return v, err
	}
	v.decoded.Privacy, v.decoded.Selection = c.Privacy, c.Selection
	for i, d := range all.Audits() {
		if d.Derive != nil {
			continue
		}
		raw, measured := c.Verdict(d.Name)
		if !measured {
			continue
		}
		verdict := d.Verdict()
		if err := json.Unmarshal(raw, verdict); err != nil {
			return v, fmt.Errorf("%s: %w", d.Name, err)
		}
		v.add(i, verdict)
	}
	if err := v.addCanaries(); err != nil {
		return v, err
	}
	for i, d := range all.Audits() {
		if d.Derive != nil {
			v.add(i, d.Derive(&v.decoded))
		}
	}
	return v, nil
}

// addDerived puts verdicts that follow from others beside them in the report.
func (v *viewCell) addDerived() error {
	for i, d := range all.Audits() {
		if !d.InJSON || v.verdicts[i] == nil || v.Audit == nil {
			continue
		}
		if err := v.Audit.Verdicts.Set(d.Name, v.verdicts[i]); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return nil
}

func (v *viewCell) add(place int, verdict audits.Verdict) {
	if verdict != nil {
		v.verdicts[place] = verdict
		v.decoded.Verdicts = append(v.decoded.Verdicts, verdict)
	}
}

func (v *viewCell) addCanaries() error {
	if v.Audit == nil {
		return nil
	}
	for _, c := range v.Audit.Canaries() {
		outcomes, err := v.outcomes(&c)
		if err != nil {
			return err
		}
		v.decoded.Canaries = append(v.decoded.Canaries, audits.Canary{
			Role: c.Role, Words: c.Words, UserProbability: c.UserProbability, ExampleProbability: c.ExampleProbability,
			InsertedTimes: c.InsertedTimes, Format: c.Format,
			Users: c.Users, Holders: c.Holders, Insertions: c.Insertions, Outcomes: outcomes,
		})
	}
	return nil
}

// outcomes are what the audits that have measured say of a canary.
func (v *viewCell) outcomes(c *reports.Canary) ([]audits.Outcome, error) {
	var outcomes []audits.Outcome
	for i, d := range all.Audits() {
		if v.verdicts[i] == nil || d.OutcomesBlob == "" {
			continue
		}
		outcome := d.Outcome()
		if err := c.Decode(outcome); err != nil {
			return nil, fmt.Errorf("%s of canary %q: %w", d.Name, c.Words, err)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// has reports whether any cell has a verdict of a description.
func (v *view) has(place int) bool {
	for i := range v.cells {
		if v.cells[i].told(place) != nil {
			return true
		}
	}
	return false
}

// says reports whether the verdict of some cell has a text for a column.
func (v *view) says(column tableColumn) bool {
	for i := range v.cells {
		if verdict := v.cells[i].told(column.place); verdict != nil && column.cell(verdict) != "" {
			return true
		}
	}
	return false
}
