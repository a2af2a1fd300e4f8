package results

import (
	"fmt"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// Outcomes of the gate of a cell, which judges the limits of audit.fail_if.
const (
	GateMet    = "met"
	GateFailed = "failed"
)

// judge compares a finished cell with the limits of audit.fail_if. gate is empty without limits. Unjudged
// numbers do not fail the gate: other numbers of their limits decide, or there is nothing to measure.
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

// gate returns the outcome of a cell's gate. Older results contain only the breaches.
func (c *Cell) gate() string {
	if len(c.Breaches) > 0 {
		return GateFailed
	}
	return c.Gate
}

// Gate returns GateFailed if the gate of a cell failed, GateMet if all judged gates are met, and "" if no
// gate was judged.
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

// gated reports whether the gate of a cell was judged. Only then do tables have a column for gates.
func (v *view) gated() bool { return v.Results.Gate() != "" }

// gateHeader is the header of the last column of tables.
const gateHeader = "gate"

// gate returns the text in the column of gates, such as "failed", or "2 of 3 failed" for a row of replicates.
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
	Gate     *string `parquet:"gate" doc:"whether the model is within the limits of audit.fail_if: met or failed"`
	Breaches *string `parquet:"breaches" doc:"limits that the model exceeds"`
}

// unjudgedRow names the numbers that a cell's gate did not judge.
type unjudgedRow struct {
	Unjudged *string `parquet:"unjudged" doc:"numbers that the gate could not judge"`
}

func gateOf(c *viewCell) any {
	return gateRow{audits.When(c.gate() != "", c.gate()), list(c.Breaches)}
}

// list joins texts. It returns nil without texts.
func list(texts []string) *string { return audits.When(len(texts) > 0, strings.Join(texts, "; ")) }
