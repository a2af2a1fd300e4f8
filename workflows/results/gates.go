package results

import (
	"coalmine/tasks/audits"
	"coalmine/workflows/experiment"
)

// breaches names the limits of audit.fail_if that a finished cell is above.
// What was not measured cannot be above a limit.
func breaches(audit *experiment.Audit, c *audits.Cell) []string {
	if audit == nil || audit.FailIf == nil {
		return nil
	}
	var out []string
	for _, limits := range audit.FailIf.Gates {
		if limits != nil {
			out = append(out, limits.Breaches(c)...)
		}
	}
	return out
}
