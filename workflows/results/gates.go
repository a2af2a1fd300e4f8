package results

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Outcomes of the gate of a cell, the limits of audit.fail_if.
const (
	GateMet    = "met"
	GateFailed = "failed"
)

// judge compares a finished cell with the limits of audit.fail_if. gate is empty without limits.
// unjudged numbers break none: others of their limits decide, or there is nothing to measure.
func judge(audit *experiment.Audit, c *audits.Cell) (gate string, breaches, unjudged []string) {
	if audit == nil || audit.FailIf == nil {
		return "", nil, nil
	}
	for _, l := range audit.FailIf.GivenLimits() {
		breaches, unjudged = append(breaches, l.Breaches(c, l.Value)...), append(unjudged, l.Unjudged(c, l.Value)...)
	}
	if len(breaches) > 0 {
		return GateFailed, breaches, unjudged
	}
	return GateMet, nil, unjudged
}

// gate is the outcome of a cell's gate. Older results have the breaches alone.
func (c *Cell) gate() string {
	if len(c.Breaches) > 0 {
		return GateFailed
	}
	return c.Gate
}

// Gate is GateFailed if the gate of some cell has failed, and "" if no cell has one that was judged.
func (r *Results) Gate() string {
	gate := ""
	for i := range r.Cells {
		switch r.Cells[i].gate() {
		case GateFailed:
			return GateFailed
		case GateMet:
			gate = GateMet
		}
	}
	return gate
}

// gated reports whether some cell has a gate that was judged. Tables have a column for it only then.
func (v *view) gated() bool { return v.Results.Gate() != "" }

// gateHeader heads the last column of tables.
const gateHeader = "gate"

// gate is a text of that column: "failed", or of a row of replicates "2 of 3 failed".
func (r *viewRow) gate() string {
	judged, failed := 0, 0
	for _, c := range r.cells {
		gate := c.gate()
		if gate != "" {
			judged++
		}
		if gate == GateFailed {
			failed++
		}
	}
	switch {
	case judged == 0:
		return "-"
	case failed == 0:
		return GateMet
	case failed == judged:
		return GateFailed
	}
	return fmt.Sprintf("%d of %d %s", failed, judged, GateFailed)
}

// gateRow is the outcome of a cell's gate.
type gateRow struct {
	Gate     *string `parquet:"gate"`
	Breaches *string `parquet:"breaches"`
}

// unjudgedRow names the numbers that the gate of a cell has not judged.
type unjudgedRow struct {
	Unjudged *string `parquet:"unjudged"`
}

// gateColumns are there if some cell has a gate; that of unjudged numbers if some gate has some.
func (v *view) gateColumns() []any {
	if !v.gated() {
		return nil
	}
	if slices.ContainsFunc(v.cells, func(c viewCell) bool { return len(c.Unjudged) > 0 }) {
		return []any{gateRow{}, unjudgedRow{}}
	}
	return []any{gateRow{}}
}

// gateOf is a cell's value in those columns.
func (v *view) gateOf(c *viewCell) []any {
	columns, gate := v.gateColumns(), c.gate()
	if gate == "" {
		return columns
	}
	columns[0] = gateRow{&gate, list(c.Breaches)}
	if len(columns) > 1 {
		columns[1] = unjudgedRow{list(c.Unjudged)}
	}
	return columns
}

// list is nil of no texts.
func list(texts []string) *string {
	if len(texts) == 0 {
		return nil
	}
	return new(strings.Join(texts, "; "))
}
