package results

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
)

// view holds the results with decoded JSON. All formats are written from it.
type view struct {
	*Results
	cells []viewCell
	// rows are the rows of replicates, and differences are the differences between them. Both are empty
	// without replicates.
	rows        []*viewRow
	differences []Difference
	best        *Best // nil without a choice
	// compact selects short texts for tables of replicates, as in LaTeX.
	compact bool
}

// viewCell is a cell with its outcomes: one for each description of package all, or nil.
type viewCell struct {
	*Cell
	decoded  audits.Cell
	outcomes []audits.Outcome
	// soFar are the outcomes of the newest measurement of a cell in training. Tables and rows of cells show
	// them; nothing is computed from them.
	soFar []audits.Outcome
}

// measured yields the outcomes of the cell with the descriptions of their audits, in the order of all.Audits.
func (v *viewCell) measured() iter.Seq2[*audits.Description, audits.Outcome] {
	return func(yield func(*audits.Description, audits.Outcome) bool) {
		descriptions := all.Audits()
		for place, outcome := range v.outcomes {
			if outcome != nil && !yield(&descriptions[place], outcome) {
				return
			}
		}
	}
}

// shown returns the outcome of a description's audit. For a cell in training, it is that of the newest measurement.
func (v *viewCell) shown(place int) audits.Outcome {
	if v.soFar != nil {
		return v.soFar[place]
	}
	return v.outcomes[place]
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
	v.best = newBest(v.rows)
	return v, nil
}

func newViewCell(c *Cell) (viewCell, error) {
	v := viewCell{Cell: c, outcomes: make([]audits.Outcome, len(all.Audits()))}
	v.decoded.Name = c.Cell
	if c.Report == nil {
		var err error
		if c.Interim != nil {
			v.soFar, err = decodeOutcomes(c.Interim.outcome)
		}
		return v, err
	}
	v.decoded.Privacy, v.decoded.Selection = c.Privacy, c.Selection
	outcomes, err := decodeOutcomes(c.Outcome)
	if err != nil {
		return v, err
	}
	for i, outcome := range outcomes {
		v.add(i, outcome)
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

// decodeOutcomes decodes the outcomes of audits. It returns one for each description of package all, or nil.
func decodeOutcomes(of func(audit string) (json.RawMessage, bool)) ([]audits.Outcome, error) {
	outcomes := make([]audits.Outcome, len(all.Audits()))
	for i, d := range all.Audits() {
		raw, measured := of(d.Name)
		if d.Derive != nil || !measured {
			continue
		}
		outcomes[i] = d.Outcome()
		if err := json.Unmarshal(raw, outcomes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return outcomes, nil
}

// addDerived adds the outcomes that follow from others to the report.
func (v *viewCell) addDerived() error {
	for d, outcome := range v.measured() {
		if !d.InJSON || v.Audit == nil {
			continue
		}
		if err := v.Audit.Outcomes.Set(d.Name, outcome); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return nil
}

func (v *viewCell) add(place int, outcome audits.Outcome) {
	if outcome != nil {
		v.outcomes[place] = outcome
		v.decoded.Outcomes = append(v.decoded.Outcomes, outcome)
	}
}

func (v *viewCell) addCanaries() error {
	if v.Audit == nil {
		return nil
	}
	for _, c := range v.Audit.Canaries() {
		canaryOutcomes, err := v.canaryOutcomes(&c)
		if err != nil {
			return err
		}
		v.decoded.Canaries = append(v.decoded.Canaries, audits.Canary{
			Role: c.Role, Words: c.Words, UserProbability: c.UserProbability, ExampleProbability: c.ExampleProbability,
			InsertedTimes: c.InsertedTimes, Format: c.Format,
			Users: c.Users, Holders: c.Holders, Insertions: c.Insertions, Outcomes: canaryOutcomes,
		})
	}
	return nil
}

// canaryOutcomes returns the outcomes of a canary by the audits that measured it.
func (v *viewCell) canaryOutcomes(c *reports.Canary) ([]audits.CanaryOutcome, error) {
	var canaryOutcomes []audits.CanaryOutcome
	for d := range v.measured() {
		if d.CanaryOutcomesBlob == "" {
			continue
		}
		canaryOutcome := d.CanaryOutcome()
		if err := c.Decode(canaryOutcome); err != nil {
			return nil, fmt.Errorf("%s of canary %q: %w", d.Name, c.Words, err)
		}
		canaryOutcomes = append(canaryOutcomes, canaryOutcome)
	}
	return canaryOutcomes, nil
}

// has reports whether any cell has an outcome of a description.
func (v *view) has(place int) bool {
	return slices.ContainsFunc(v.cells, func(c viewCell) bool { return c.shown(place) != nil })
}

// hasText reports whether the outcome of a cell has a text for a column.
func (v *view) hasText(column tableColumn) bool {
	return slices.ContainsFunc(v.cells, func(c viewCell) bool {
		outcome := c.shown(column.place)
		return outcome != nil && column.cell(outcome) != ""
	})
}
